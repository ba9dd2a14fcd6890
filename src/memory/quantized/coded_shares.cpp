#include "memory/quantized/coded_shares.hpp"

#include <algorithm>
#include <utility>

#include "memest/graph/kernel_scratch.hpp"
#include "memest/spec/compression/quantized.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/quantized/code_placement.hpp"
#include "memory/sharding/model_tensors.hpp"
#include "memory/states/model_states.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

std::int64_t codes_of(const QuantizedWeights& quantized, const ParameterTensor& row) {
  return bytes_of_codes(quantized, CodedMatrix{elements_of(row), row.shape.front()});
}

/// Bytes of the parameter's codes that a rank keeps.
std::int64_t bytes_of_shared_codes(const Job& job, const ParameterTensor& row) {
  const QuantizedWeights& quantized = *job.model.quantized;
  const std::int64_t bytes = codes_of(quantized, row);
  if (!shards_by<RowShards>(job) || !quantized.in_shards()) return bytes;
  // Params4bit's is [elements, 1], and Shard(0) chunks it like torch.chunk.
  const std::int64_t element = size_of(quantized.storage);
  const std::int64_t ranks = job.parallelism.shard_ranks();
  return checked_multiply((bytes / element + ranks - 1) / ranks, element);
}

}  // namespace

std::int64_t stored_bytes_of_rank(const Job& job, const ParameterTensor& row) {
  const QuantizedWeights& quantized = *job.model.quantized;
  const DType compute = job.forward()->recipe.compute;
  CodedMatrix weight{elements_of(row), row.shape.front()};
  if (row_of(quantized.format).of_torchao()) {
    if (shards_by<RowShards>(job)) weight.elements /= job.parallelism.shard_ranks();
    return stored_bytes(quantized, weight, compute);
  }
  const std::int64_t scales =
      stored_bytes(quantized, weight, compute) - bytes_of_codes(quantized, weight);
  return checked_add(bytes_of_shared_codes(job, row), scales);
}

void share_codes(const Inventory& whole, const Job& job, Inventory& shares) {
  const QuantizedWeights& quantized = *job.model.quantized;
  if (row_of(quantized.format).of_torchao()) return;  // of the rows that a rank has
  for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
    const ParameterTensor& row = whole.parameters[i];
    if (!row.quantized) continue;
    shares.parameters[i].shape = row.shape;
    if (!quantized.in_shards()) continue;
    shares.parameters[i].shape = {bytes_of_shared_codes(job, row) / size_of(quantized.storage), 1};
  }
}

std::vector<StorageId> placed_codes(const Timeline& timeline, const Inventory& inventory,
                                    const QuantizedWeights& quantized) {
  std::vector<StorageId> found(timeline.parameters.size(), kNoStorage);
  for (StorageId i = 0; i < timeline.storages.size(); ++i) {
    const Label& label = timeline.storages[i].label;
    if (label.origin != Origin::parameter || label.holding != Holding::weights) continue;
    const ParameterTensor& tensor = inventory.parameters[timeline.parameters[label.place].row];
    const bool scale =
        tensor.quantized && timeline.storages[i].bytes != codes_of(quantized, tensor);
    if (!scale) found[label.place] = i;
  }
  return found;
}

const ParameterTensor& CodedShares::row(std::size_t parameter) const {
  return model_.whole.parameters[model_.tensors.parameters[parameter].row];
}

void CodedShares::place() {
  const ModelTensors tensors = model_tensors(model_.whole);
  ModelPlacement placement(model_.whole, model_.job.training->recipe, tensors, recorder_);
  placement.quantize(*model_.job.model.quantized, launch_device(model_.job.hardware.gpu));
  placement.write(true, BufferOrder::as_registered);
  if (placement.widens()) {
    placement.widen();
    recorder_.empty_cache();
  }
  placement.place_adapters(*model_.job.model.adapter);
}

std::vector<HeldStorage> CodedShares::adopt_whole() {
  const QuantizedWeights& quantized = *model_.job.model.quantized;
  const std::vector<StorageId> found = placed_codes(recorder_.timeline(), model_.whole, quantized);
  std::vector<HeldStorage> whole(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool stays = row(i).quantized && !quantized.in_shards();  // with its module
    if (!stays) whole[i] = recorder_.adopt(found[i]);
  }
  return whole;
}

/// accelerate 1.15, Accelerator._prepare_fsdp2: p.data = torch.empty(1) of each parameter that the
/// optimizer has, whose address tells it from the others.
HeldVector CodedShares::name_parameters() {
  HeldVector names;
  for (std::size_t i = 0; i < model_.tensors.parameters.size(); ++i) {
    if (!row(i).wants_gradient()) continue;
    names.push_back(recorder_.make(size_of(placed_type(row(i), model_.job.training->recipe)),
                                   loop_label(Holding::temporaries, LoopTensor::shapes)));
  }
  return names;
}

/// QuantState.as_dict, which Linear4bit's state dict calls: state2.code.clone().
std::vector<HeldStorage> CodedShares::clone_codes_of_scales() {
  const QuantizedWeights& quantized = *model_.job.model.quantized;
  std::vector<HeldStorage> clones(model_.tensors.parameters.size());
  for (std::size_t i = 0; i < clones.size(); ++i) {
    if (!row(i).quantized || !quantized.double_quant) continue;
    clones[i] = recorder_.make(bytes_of_process(quantized),
                               loop_label(Holding::temporaries, LoopTensor::shapes));
  }
  return clones;
}

void CodedShares::cut(ModelPlacement& shares) {
  std::vector<HeldStorage> whole = adopt_whole();
  HeldVector names = name_parameters();
  std::vector<HeldStorage> clones = clone_codes_of_scales();
  for (const ShardedUnit& unit : units_as_wrapped(model_, recorder_.timeline())) {
    for (const std::uint32_t parameter : unit.parameters) shares.place(parameter);
  }
  // original_sd goes as fsdp2_prepare_model returns.
  for (std::size_t i = 0; i < whole.size(); ++i) {
    whole[i].drop();
    clones[i].drop();
  }
  names.drop();
}

}  // namespace memest
