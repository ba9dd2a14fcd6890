// torch.nn.utils.clip_grad_norm_ in its foreach form, PyTorch 2.11.
#include <algorithm>

#include "../model_states.hpp"
#include "memest/units/int128.hpp"
#include "optimizer_run.hpp"

namespace memest {
namespace {

Label label_of(LoopTensor tensor) {
  Label label;
  label.holding = Holding::temporaries;
  label.tensor = static_cast<std::uint16_t>(tensor);
  return label;
}

}  // namespace

/// Partial sums of all tensors together; a norm for each; their stack; the norm of that; and the
/// coefficient max_norm / (norm + 1e-6), clamped, with which the gradients are scaled in place.
StorageId OptimizerRun::clip() {
  const std::int64_t bytes = size_of(training_.recipe.gradients);
  std::int64_t count = 0;
  std::int64_t largest = 0;
  for (const ParameterGroup& group : groups_) {
    count += static_cast<std::int64_t>(group.size());
    for (const SteppedTensor& tensor : group) largest = std::max(largest, tensor.elements);
  }
  const auto make = [this](std::int64_t size, LoopTensor tensor) {
    return recorder_.allocate(size, label_of(tensor));
  };
  const StorageId partial = make(partial_norm_bytes(count, largest), LoopTensor::partial_norms);
  std::vector<StorageId> norms;
  norms.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    norms.push_back(make(bytes, LoopTensor::norm_of_a_tensor));
  }
  recorder_.release(partial);
  const StorageId stack = make(checked_multiply(count, bytes), LoopTensor::stacked_norms);
  const StorageId norm = make(bytes, LoopTensor::norm);
  recorder_.release(stack);
  std::for_each(norms.rbegin(), norms.rend(),
                [this](StorageId storage) { recorder_.release(storage); });
  const StorageId sum = make(bytes, LoopTensor::clip_coefficient);
  const StorageId reciprocal = make(bytes, LoopTensor::clip_coefficient);
  const StorageId product = make(bytes, LoopTensor::clip_coefficient);
  recorder_.release(reciprocal);
  recorder_.release(sum);
  const StorageId clamped = make(bytes, LoopTensor::clip_coefficient);
  recorder_.release(product);
  recorder_.release(clamped);
  return norm;
}

}  // namespace memest
