// transformers' GenerationMixin.generate() around a decoder (transformers 5.17,
// generation/utils.py), of prompts without padding, until every sequence has all of its new tokens.
// The config names the ids of a sequence's beginning and of its one end, and none for padding.
#pragma once

#include <cstdint>

#include "memest/spec/inference.hpp"
#include "memory/generation/decoder_model.hpp"

namespace memest {

/// The sizes of a call.
struct GenerationSizes {
  std::int64_t prompts = 1;
  std::int64_t beams = 1;
  std::int64_t prompt = 0;  ///< tokens
  std::int64_t tokens = 0;  ///< new ones
  std::int64_t vocabulary = 0;

  [[nodiscard]] std::int64_t sequences() const { return prompts * beams; }
  [[nodiscard]] std::int64_t longest() const { return prompt + tokens; }
};

/// Tensors of a call, by their elements.
class GenerationTensors {
 public:
  GenerationTensors(const std::optional<LaunchDevice>& device, Recorder& recorder)
      : device_(device), recorder_(recorder) {}

  [[nodiscard]] HeldStorage make(LoopTensor name, std::int64_t elements, DType dtype) const;
  [[nodiscard]] HeldStorage share(const HeldStorage& storage) const {
    return recorder_.share(storage.id());
  }
  /// A tensor that comes and goes.
  void pass(LoopTensor name, std::int64_t elements, DType dtype) const {
    make(name, elements, dtype).drop();
  }
  /// `x` = f(`x`): the new one is there before the old one goes.
  void replace(HeldStorage& x, LoopTensor name, std::int64_t elements, DType dtype) const {
    x = make(name, elements, dtype);
  }

  struct Largest {
    HeldStorage values;
    HeldStorage indices;
  };
  /// torch.topk of `slices` rows of `size` numbers in fp32.
  [[nodiscard]] Largest top_k(LoopTensor name, std::int64_t slices, std::int64_t size,
                              std::int64_t count) const;
  /// A reduction of all of them.
  [[nodiscard]] HeldStorage reduce_all(LoopTensor name, std::int64_t elements) const;
  /// A sum of each of `rows` rows.
  [[nodiscard]] HeldStorage sum_rows(LoopTensor name, std::int64_t rows,
                                     std::int64_t columns) const;
  /// A running sum of each of `rows` rows of integers.
  [[nodiscard]] HeldStorage running_sum(LoopTensor name, std::int64_t rows,
                                        std::int64_t columns) const;

 private:
  void launch(LoopTensor name, const ScratchSteps& steps) const;

  std::optional<LaunchDevice> device_;
  Recorder& recorder_;
};

/// The model_kwargs of a decoding loop.
struct ModelKwargs {
  HeldStorage positions;
  HeldStorage mask;
};

/// The parts that a decoding loop is called with.
struct Decoding {
  const GenerationSizes& sizes;
  const GenerationTensors& tensors;
  DecoderModel& model;
  Recorder& recorder;

  /// generate() -> _prefill(): the forward of the prompts, of token ids in a copy of their own.
  HeldStorage prefill(const HeldStorage& ids, const ModelKwargs& kwargs) const;
  /// prepare_inputs_for_generation() of the last token of each sequence.
  void prepare(ModelInputs& inputs, const ModelKwargs& kwargs) const;
  /// _update_model_kwargs_for_generation(): `tokens` more than there were.
  void update(ModelKwargs& kwargs, std::int64_t tokens) const;
  /// StoppingCriteriaList of a length and an end token, over so many sequences.
  [[nodiscard]] HeldStorage stopping(std::int64_t sequences) const;
};

/// GenerationMixin._sample(): greedy, or multinomial. Returns the sequences.
HeldStorage sample(const Decoding& decoding, HeldStorage ids, ModelKwargs kwargs, bool samples);
/// GenerationMixin._beam_search().
HeldStorage beam_search(const Decoding& decoding, HeldStorage ids, ModelKwargs kwargs);

class GenerationLoop {
 public:
  GenerationLoop(const InferenceSpec& inference, const DecoderModel::Parts& parts);

  void prompt(std::uint16_t number);

 private:
  /// generate() up to its decoding loop.
  ModelKwargs prepare(HeldStorage& ids, const HeldStorage& mask);

  GenerationSizes sizes_;
  bool samples_;
  GenerationTensors tensors_;
  DecoderModel model_;
  Recorder& recorder_;
};

}  // namespace memest
