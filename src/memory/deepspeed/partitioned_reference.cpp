#include "memory/deepspeed/partitioned_reference.hpp"

#include "memest/units/int128.hpp"
#include "memory/sharding/model_tensors.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {

void PartitionedReference::place() {
  if (!own_) return;
  const auto make = [&](Holding holding, std::int64_t elements, DType type) {
    return model_->recorder.make(checked_multiply(elements, size_of(type)),
                                 loop_label(holding, LoopTensor::teacher));
  };
  const ModelTensors tensors = model_tensors(model_->inventory);
  for (const TensorPlace& buffer : tensors.buffers) {
    make(Holding::buffers, buffer.elements, model_->inventory.buffers[buffer.row].dtype).give_up();
  }
  const auto weights = static_cast<std::uint32_t>(tensors.parameters.size());
  HeldVector whole;
  const auto make_whole = [&](std::uint32_t i) {
    whole.push_back(make(Holding::weights, tensors.parameters[i].elements, model_->weights));
  };
  for (std::uint32_t i = 0; i < weights && !model_->made_cut; ++i) make_whole(i);
  for (std::uint32_t i = 0; i < weights; ++i) {
    if (model_->made_cut) make_whole(i);
    make(Holding::weights, own_->piece(i), model_->weights).give_up();
    whole[i].drop();
  }
  for (std::uint32_t i = 0; i < weights; ++i) own_->gather_once(i);
}

}  // namespace memest
