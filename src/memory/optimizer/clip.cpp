// torch.nn.utils.clip_grad_norm_ in its foreach form, PyTorch 2.11.
#include <algorithm>
#include <utility>
#include <vector>

#include "memest/units/int128.hpp"
#include "memory/optimizer/optimizer_run.hpp"
#include "memory/states/model_states.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

Label clip_label(LoopTensor tensor) { return loop_label(Holding::temporaries, tensor); }

}  // namespace

/// Makes partial sums over all tensors of a type together, and a norm for each tensor.
void OptimizerRun::take_norms(DType type, HeldList& norms) {
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
  const HeldList relaid = relaid_gains();
  const HeldStorage partial =
      recorder_.make(partial_norm_bytes(count, largest), clip_label(LoopTensor::partial_norms));
  for (std::int64_t i = 0; i < count; ++i) {
    norms.push_back(recorder_.make(size_of(type), clip_label(LoopTensor::norm_of_a_tensor)));
  }
}

/// Gradients that no unit reduces (DTensor's partial sums of gains, and an embedding's gradient, of
/// which every rank has the whole table) take the form of the parameter's share for as long as an
/// operation reads them. A norm of the whole table is a partial one as it is.
HeldList OptimizerRun::relaid_gradients(const ParameterGroup& group, bool tables) {
  HeldList relaid;
  if (!keeps_unreduced_) return relaid;
  for (const SteppedTensor& tensor : group) {
    const bool table = tables && tensor.row->role == ParameterRole::embedding;
    if (tensor.row->role != ParameterRole::norm && !table) continue;
    const std::int64_t bytes = checked_multiply(tensor.elements, size_of(gradient_type(tensor)));
    relaid.push_back(recorder_.make(bytes, clip_label(LoopTensor::relaid_gradient)));
  }
  return relaid;
}

HeldList OptimizerRun::relaid_gains() {
  HeldList relaid;
  for (const ParameterGroup& group : groups_) {
    HeldList of_group = relaid_gradients(group, false);
    for (HeldStorage& gradient : of_group) relaid.push_back(std::move(gradient));
  }
  return relaid;
}

/// Norms of gradients that every tensor-parallel rank holds whole are cut over the ranks, so that
/// all are partial sums alike.
HeldList OptimizerRun::spread_norms(std::int64_t bytes) {
  HeldList spread;
  if (tensor_ranks_ == 1) return spread;
  for (const ParameterGroup& group : groups_) {
    for (const SteppedTensor& tensor : group) {
      const bool whole = tensor.row->role == ParameterRole::norm ||
                         tensor.row->module == ParameterModule::router ||
                         (keeps_unreduced_ && tensor.row->role == ParameterRole::embedding);
      if (!whole) continue;
      spread.push_back(recorder_.make(bytes, clip_label(LoopTensor::norm_of_a_tensor)));
    }
  }
  return spread;
}

/// Each rank knows the norms of its shares: their powers are summed over the ranks, and the roots
/// answered (torch/distributed/tensor/_ops/_math_ops.py, _NormPartial).
HeldStorage OptimizerRun::reduce_norms(std::int64_t bytes) {
  const auto make = [&] { return recorder_.make(bytes, clip_label(LoopTensor::stacked_norms)); };
  HeldStorage powers = make();
  HeldStorage sums = make();
  HeldStorage roots = make();
  powers.drop();
  sums.drop();
  return roots;
}

/// The norms of each type's tensors; their stack; the norm of that; and the coefficient
/// max_norm / (norm + 1e-6), clamped, with which the gradients are scaled in place.
HeldStorage OptimizerRun::clip() {
  const auto make = [this](std::int64_t size, LoopTensor tensor) {
    return recorder_.make(size, clip_label(tensor));
  };
  HeldList norms;
  std::int64_t bytes = 0;  // of a norm in the widest type
  for (const DType type : gradient_types()) {
    take_norms(type, norms);
    bytes = std::max(bytes, size_of(type));
  }
  const auto count = static_cast<std::int64_t>(norms.size());
  HeldList spread = spread_norms(bytes);
  HeldStorage stack = make(checked_multiply(count, bytes), LoopTensor::stacked_norms);
  spread.drop();
  HeldStorage whole;
  for (int i = 0; i < sharded_meshes_; ++i) whole = reduce_norms(checked_multiply(count, bytes));
  HeldStorage norm = make(bytes, LoopTensor::norm);
  whole.drop();
  stack.drop();
  norms.drop();
  // _clip_grads_with_norm_: a number over a tensor is its reciprocal() times the number
  // (Tensor.__rdiv__).
  HeldStorage sum = make(bytes, LoopTensor::clip_coefficient);
  HeldStorage reciprocal = make(bytes, LoopTensor::clip_coefficient);
  HeldStorage product = make(bytes, LoopTensor::clip_coefficient);
  reciprocal.drop();
  sum.drop();
  const HeldStorage clamped = make(bytes, LoopTensor::clip_coefficient);
  relaid_gains().drop();
  product.drop();
  return norm;
}

}  // namespace memest
