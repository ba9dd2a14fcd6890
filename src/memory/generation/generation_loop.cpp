#include "memory/generation/generation_loop.hpp"

#include <utility>

#include "memest/units/int128.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

GenerationSizes sizes_of(const InferenceSpec& inference, const Graph& graph) {
  return {inference.prompts(), inference.beams(), inference.seq_len, inference.generation->tokens,
          graph.sizes.at(Symbol::vocab_size)};
}

Label label_of(LoopTensor name) {
  const Holding holding = name == LoopTensor::batch ? Holding::batch : Holding::activations;
  return loop_label(holding, name);
}

}  // namespace

HeldStorage GenerationTensors::make(LoopTensor name, std::int64_t elements, DType dtype) const {
  return recorder_.make(checked_multiply(elements, size_of(dtype)), label_of(name));
}

void GenerationTensors::launch(LoopTensor name, const ScratchSteps& steps) const {
  recorder_.launch(steps, label_of(name));
}

GenerationTensors::Largest GenerationTensors::top_k(LoopTensor name, std::int64_t slices,
                                                    std::int64_t size, std::int64_t count) const {
  Largest largest{make(name, slices * count, DType::fp32),
                  make(name, slices * count, DType::int64)};
  if (device_) launch(name, top_k_scratch(slices, size, *device_));
  return largest;
}

HeldStorage GenerationTensors::reduce_all(LoopTensor name, std::int64_t elements) const {
  HeldStorage result = make(name, 1, DType::fp32);
  if (device_)
    launch(name, reduction_scratch(sum_of_all(elements, size_of(DType::fp32)), *device_));
  return result;
}

HeldStorage GenerationTensors::sum_rows(LoopTensor name, std::int64_t rows,
                                        std::int64_t columns) const {
  HeldStorage result = make(name, rows, DType::fp32);
  if (device_) {
    launch(name, reduction_scratch(sum_of_columns(rows, columns, size_of(DType::fp32)), *device_));
  }
  return result;
}

HeldStorage GenerationTensors::running_sum(LoopTensor name, std::int64_t rows,
                                           std::int64_t columns) const {
  HeldStorage result = make(name, rows * columns, DType::int64);
  // A running sum of one row is a scan of the whole tensor.
  if (rows == 1) launch(name, scan_scratch(columns, size_of(DType::int64)));
  return result;
}

HeldStorage Decoding::prefill(const HeldStorage& ids, const ModelKwargs& kwargs) const {
  const std::int64_t tokens = sizes.sequences() * sizes.prompt;
  ModelInputs inputs{tensors.make(LoopTensor::input_ids, tokens, DType::int64),
                     tensors.share(kwargs.positions), tensors.share(kwargs.mask)};
  HeldStorage logits = model.prefill(inputs);
  inputs.ids.drop();
  recorder.enter_phase(Phase::decode);
  (void)ids;
  return logits;
}

void Decoding::prepare(ModelInputs& inputs, const ModelKwargs& kwargs) const {
  ModelInputs next;
  next.ids = tensors.make(LoopTensor::input_ids, sizes.sequences(), DType::int64);
  next.positions = tensors.make(LoopTensor::position_ids, sizes.sequences(), DType::int64);
  next.mask = tensors.share(kwargs.mask);
  rename(inputs, std::move(next));
}

void Decoding::update(ModelKwargs& kwargs, std::int64_t tokens) const {
  const std::int64_t rows = sizes.sequences();
  HeldStorage next = tensors.make(LoopTensor::position_ids, 1, DType::int64);
  tensors.replace(next, LoopTensor::position_ids, rows, DType::int64);
  tensors.replace(next, LoopTensor::position_ids, rows, DType::int64);
  HeldStorage positions = tensors.make(LoopTensor::position_ids, rows * tokens, DType::int64);
  next.drop();
  HeldStorage ones = tensors.make(LoopTensor::attention_mask, rows, DType::int64);
  HeldStorage mask = tensors.make(LoopTensor::attention_mask, rows * tokens, DType::int64);
  ones.drop();
  kwargs.positions = std::move(positions);
  kwargs.mask = std::move(mask);
}

HeldStorage Decoding::stopping(std::int64_t sequences) const {
  constexpr LoopTensor kName = LoopTensor::stopping;
  const auto flags = [&] { return tensors.make(kName, sequences, DType::boolean); };
  HeldStorage done = flags();
  {
    HeldStorage by_length = flags();  // MaxLengthCriteria
    HeldStorage either = flags();
    by_length.drop();
    done = std::move(either);
  }
  HeldStorage by_token = flags();  // EosTokenCriteria: torch.isin
  {
    HeldStorage compared = flags();
    tensors.pass(kName, sequences, DType::boolean);
    compared.drop();
    by_token = flags();
  }
  HeldStorage either = flags();
  by_token.drop();
  done = std::move(either);
  return done;
}

GenerationLoop::GenerationLoop(const InferenceSpec& inference, const DecoderModel::Parts& parts)
    : sizes_(sizes_of(inference, parts.graph)),
      samples_(inference.generation->samples),
      tensors_(parts.device, parts.recorder),
      model_(parts),
      recorder_(parts.recorder) {}

ModelKwargs GenerationLoop::prepare(HeldStorage& ids, const HeldStorage& mask) {
  constexpr LoopTensor kSpecial = LoopTensor::special_tokens;
  const std::int64_t tokens = sizes_.prompts * sizes_.prompt;
  const auto flag = [&] { return tensors_.make(kSpecial, 1, DType::boolean); };
  // _prepare_special_tokens: torch.isin(eos, pad).any(), (eos < 0).any().
  {
    HeldStorage equal = flag();
    HeldStorage compared = flag();
    tensors_.pass(kSpecial, 1, DType::boolean);
    compared.drop();
    HeldStorage any = flag();
    equal.drop();
    any.drop();
    HeldStorage negative = flag();
    any = flag();
    negative.drop();
  }
  // Right padding: torch.any(attention_mask[:, -1] == 0).
  if (sizes_.prompts > 1) {
    HeldStorage padded = tensors_.make(kSpecial, sizes_.prompts, DType::boolean);
    HeldStorage any = flag();
    padded.drop();
  }
  // _prepare_position_ids_for_generation: attention_mask.long().cumsum(-1) - 1, masked_fill.
  HeldStorage counts =
      tensors_.running_sum(LoopTensor::position_ids, sizes_.prompts, sizes_.prompt);
  tensors_.replace(counts, LoopTensor::position_ids, tokens, DType::int64);
  HeldStorage padding = tensors_.make(LoopTensor::position_ids, tokens, DType::boolean);
  HeldStorage counted = tensors_.make(LoopTensor::position_ids, tokens, DType::int64);
  padding.drop();
  counts.drop();
  ModelKwargs kwargs{std::move(counted), tensors_.share(mask)};
  if (sizes_.beams == 1) return kwargs;
  // _expand_inputs_for_generation: repeat_interleave(num_beams, dim=0).
  const std::int64_t all = sizes_.sequences() * sizes_.prompt;
  ids = tensors_.make(LoopTensor::sequences, all, DType::int64);
  HeldStorage masks = tensors_.make(LoopTensor::attention_mask, all, DType::int64);
  HeldStorage positions = tensors_.make(LoopTensor::position_ids, all, DType::int64);
  kwargs.mask = std::move(masks);
  kwargs.positions = std::move(positions);
  return kwargs;
}

void GenerationLoop::prompt(std::uint16_t number) {
  recorder_.begin_step(number);
  recorder_.begin(Phase::batch);
  const std::int64_t tokens = sizes_.prompts * sizes_.prompt;
  const HeldStorage batch = tensors_.make(LoopTensor::batch, tokens, DType::int64);
  const HeldStorage mask = tensors_.make(LoopTensor::batch, tokens, DType::int64);
  recorder_.end();
  recorder_.begin(Phase::forward);
  HeldStorage sequences;
  {
    const HeldStorage begin = tensors_.make(LoopTensor::special_tokens, 1, DType::int64);
    const HeldStorage end = tensors_.make(LoopTensor::special_tokens, 1, DType::int64);
    HeldStorage ids = tensors_.share(batch);
    // generate()'s own model_kwargs stay as they are until it returns.
    const ModelKwargs own = prepare(ids, mask);
    ModelKwargs kwargs{tensors_.share(own.positions), tensors_.share(own.mask)};
    const Decoding decoding{sizes_, tensors_, model_, recorder_};
    sequences = sizes_.beams > 1
                    ? beam_search(decoding, tensors_.share(ids), std::move(kwargs))
                    : sample(decoding, tensors_.share(ids), std::move(kwargs), samples_);
  }
  recorder_.end();
}

}  // namespace memest
