// torch.nn.utils.clip_grad_norm_ in its foreach form, PyTorch 2.11.
#include <algorithm>
#include <utility>
#include <vector>

#include "memest/units/int128.hpp"
#include "memory/optimizer/optimizer_run.hpp"
#include "memory/states/model_states.hpp"

namespace memest {
namespace {

Label label_of(LoopTensor tensor) {
  Label label;
  label.holding = Holding::temporaries;
  label.tensor = static_cast<std::uint16_t>(tensor);
  return label;
}

}  // namespace

/// Makes partial sums over all tensors of a type together, and a norm for each tensor.
void OptimizerRun::take_norms(DType type, std::vector<StorageId>& norms) {
  std::int64_t count = 0;
  std::int64_t largest = 0;
  for (const ParameterGroup& group : groups_) {
    for (const SteppedTensor& tensor : group) {
      if (gradient_type(tensor) != type) continue;
      ++count;
      const bool whole = keeps_unreduced_ && tensor.row->role == ParameterRole::embedding;
      largest = std::max(largest, checked_multiply(tensor.elements, whole ? tensor_ranks_ : 1));
    }
  }
  const std::vector<StorageId> relaid = relaid_gains();
  const StorageId partial =
      recorder_.allocate(partial_norm_bytes(count, largest), label_of(LoopTensor::partial_norms));
  for (std::int64_t i = 0; i < count; ++i) {
    norms.push_back(recorder_.allocate(size_of(type), label_of(LoopTensor::norm_of_a_tensor)));
  }
  recorder_.release(partial);
  release_backwards(relaid);
}

/// Gradients that no unit reduces (DTensor's partial sums of gains, and an embedding's gradient, of
/// which every rank has the whole table) take the form of the parameter's share for as long as an
/// operation reads them. A norm of the whole table is a partial one as it is.
std::vector<StorageId> OptimizerRun::relaid_gradients(const ParameterGroup& group, bool tables) {
  std::vector<StorageId> relaid;
  if (!keeps_unreduced_) return relaid;
  for (const SteppedTensor& tensor : group) {
    const bool table = tables && tensor.row->role == ParameterRole::embedding;
    if (tensor.row->role != ParameterRole::norm && !table) continue;
    const std::int64_t bytes = checked_multiply(tensor.elements, size_of(gradient_type(tensor)));
    relaid.push_back(recorder_.allocate(bytes, label_of(LoopTensor::relaid_gradient)));
  }
  return relaid;
}

std::vector<StorageId> OptimizerRun::relaid_gains() {
  std::vector<StorageId> relaid;
  for (const ParameterGroup& group : groups_) {
    for (const StorageId storage : relaid_gradients(group, false)) relaid.push_back(storage);
  }
  return relaid;
}

void OptimizerRun::release_backwards(const std::vector<StorageId>& storages) {
  std::for_each(storages.rbegin(), storages.rend(),
                [this](StorageId storage) { recorder_.release(storage); });
}

/// Norms of gradients that every tensor-parallel rank holds whole are cut over the ranks, so that
/// all are partial sums alike.
std::vector<StorageId> OptimizerRun::spread_norms(std::int64_t bytes) {
  std::vector<StorageId> spread;
  if (tensor_ranks_ == 1) return spread;
  for (const ParameterGroup& group : groups_) {
    for (const SteppedTensor& tensor : group) {
      const bool whole = tensor.row->role == ParameterRole::norm ||
                         (keeps_unreduced_ && tensor.row->role == ParameterRole::embedding);
      if (!whole) continue;
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
  release_backwards(spread);
  StorageId whole = kNoStorage;
  for (int i = 0; i < sharded_meshes_; ++i) {
    recorder_.release(std::exchange(whole, reduce_norms(checked_multiply(count, bytes))));
  }
  const StorageId norm = make(bytes, LoopTensor::norm);
  recorder_.release(whole);
  recorder_.release(stack);
  release_backwards(norms);
  const StorageId sum = make(bytes, LoopTensor::clip_coefficient);
  const StorageId reciprocal = make(bytes, LoopTensor::clip_coefficient);
  const StorageId product = make(bytes, LoopTensor::clip_coefficient);
  recorder_.release(reciprocal);
  recorder_.release(sum);
  const StorageId clamped = make(bytes, LoopTensor::clip_coefficient);
  release_backwards(relaid_gains());
  recorder_.release(product);
  recorder_.release(clamped);
  return norm;
}

}  // namespace memest
