// torch.nn.utils.clip_grad_norm_ in its foreach form, PyTorch 2.11.
#include <algorithm>
#include <utility>
#include <vector>

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

/// Of all tensors of a type together: partial sums, and a norm for each tensor.
void OptimizerRun::take_norms(DType type, std::vector<StorageId>& norms) {
  std::int64_t count = 0;
  std::int64_t largest = 0;
  for (const ParameterGroup& group : groups_) {
    for (const SteppedTensor& tensor : group) {
      if (gradient_type(tensor) != type) continue;
      ++count;
      largest = std::max(largest, tensor.elements);
    }
  }
  const StorageId partial =
      recorder_.allocate(partial_norm_bytes(count, largest), label_of(LoopTensor::partial_norms));
  for (std::int64_t i = 0; i < count; ++i) {
    norms.push_back(recorder_.allocate(size_of(type), label_of(LoopTensor::norm_of_a_tensor)));
  }
  recorder_.release(partial);
}

/// Norms of parameters that every tensor-parallel rank holds whole are cut over the ranks, so that
/// all are partial sums alike.
std::vector<StorageId> OptimizerRun::spread_norms(std::int64_t bytes) {
  std::vector<StorageId> spread;
  if (!shards_tensors_) return spread;
  for (const ParameterGroup& group : groups_) {
    for (const SteppedTensor& tensor : group) {
      if (tensor.row->role != ParameterRole::norm) continue;
      spread.push_back(recorder_.allocate(bytes, label_of(LoopTensor::norm_of_a_tensor)));
    }
  }
  return spread;
}

/// Each rank knows the norms of its shares: their powers are summed over the ranks, and the roots
/// answered (torch/distributed/tensor/_ops/_math_ops.py, _NormPartial).
StorageId OptimizerRun::reduce_norms(std::int64_t bytes) {
  const auto make = [&] { return recorder_.allocate(bytes, label_of(LoopTensor::stacked_norms)); };
  const StorageId powers = make();
  const StorageId sums = make();
  const StorageId roots = make();
  recorder_.release(powers);
  recorder_.release(sums);
  return roots;
}

/// The norms of each type's tensors; their stack; the norm of that; and the coefficient
/// max_norm / (norm + 1e-6), clamped, with which the gradients are scaled in place.
StorageId OptimizerRun::clip() {
  const auto make = [this](std::int64_t size, LoopTensor tensor) {
    return recorder_.allocate(size, label_of(tensor));
  };
  std::vector<StorageId> norms;
  std::int64_t bytes = 0;  // of a norm in the widest type
  for (const DType type : gradient_types()) {
    take_norms(type, norms);
    bytes = std::max(bytes, size_of(type));
  }
  const auto count = static_cast<std::int64_t>(norms.size());
  const std::vector<StorageId> spread = spread_norms(bytes);
  const StorageId stack = make(checked_multiply(count, bytes), LoopTensor::stacked_norms);
  for (auto at = spread.rbegin(); at != spread.rend(); ++at) recorder_.release(*at);
  StorageId whole = kNoStorage;
  for (int i = 0; i < sharded_meshes_; ++i) {
    recorder_.release(std::exchange(whole, reduce_norms(checked_multiply(count, bytes))));
  }
  const StorageId norm = make(bytes, LoopTensor::norm);
  recorder_.release(whole);
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
