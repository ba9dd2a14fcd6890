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
void OptimizerRun::take_norms(DType type, Meshes meshes, HeldList& norms) {
  std::int64_t count = 0;
  std::int64_t largest = 0;
  for (const ParameterGroup& group : groups_) {
    for (const SteppedTensor& tensor : group) {
      if (gradient_type(tensor) != type) continue;
      const Meshes own = tensor.row->expert_parallel ? Meshes::of_experts : Meshes::of_others;
      if (meshes != Meshes::all && meshes != own) continue;
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

/// The norms of each type's tensors among those of `meshes`, their stack, and the norm of that.
HeldStorage OptimizerRun::total_norm(Meshes meshes) {
  const auto make = [this](std::int64_t size, LoopTensor tensor) {
    return recorder_.make(size, clip_label(tensor));
  };
  HeldList norms;
  const std::int64_t bytes = norm_bytes();
  for (const DType type : gradient_types()) take_norms(type, meshes, norms);
  const auto count = static_cast<std::int64_t>(norms.size());
  HeldList spread = meshes == Meshes::of_experts ? HeldList() : spread_norms(bytes);
  HeldStorage stack = make(checked_multiply(count, bytes), LoopTensor::stacked_norms);
  spread.drop();
  HeldStorage whole;
  const int reductions = meshes == Meshes::of_experts ? expert_meshes_ : sharded_meshes_;
  for (int i = 0; i < reductions; ++i) whole = reduce_norms(checked_multiply(count, bytes));
  HeldStorage norm = make(bytes, LoopTensor::norm);
  whole.drop();
  stack.drop();
  norms.drop();
  return norm;
}

/// The bytes of a norm in the widest type.
std::int64_t OptimizerRun::norm_bytes() const {
  std::int64_t bytes = 0;
  for (const DType type : gradient_types()) bytes = std::max(bytes, size_of(type));
  return bytes;
}

/// The coefficient max_norm / (norm + 1e-6), clamped, with which gradients are scaled in place.
void OptimizerRun::scale_gradients() {
  const auto make = [this] {
    return recorder_.make(norm_bytes(), clip_label(LoopTensor::clip_coefficient));
  };
  // _clip_grads_with_norm_: a number over a tensor is its reciprocal() times the number
  // (Tensor.__rdiv__).
  HeldStorage sum = make();
  HeldStorage reciprocal = make();
  HeldStorage product = make();
  reciprocal.drop();
  sum.drop();
  const HeldStorage clamped = make();
  relaid_gains().drop();
  product.drop();
}

/// Where experts lie on a mesh of their own (torchtitan 0.2.2, _clip_grad_norm_with_ep): the norms
/// of both, squared and summed; the root in its place; each is scaled by itself.
HeldStorage OptimizerRun::clip() {
  if (!experts_apart_) {
    HeldStorage norm = total_norm(Meshes::all);
    scale_gradients();
    return norm;
  }
  const HeldStorage experts = total_norm(Meshes::of_experts);
  const HeldStorage others = total_norm(Meshes::of_others);
  const auto make = [this] { return recorder_.make(norm_bytes(), clip_label(LoopTensor::norm)); };
  HeldStorage square = make();
  HeldStorage other_square = make();
  HeldStorage norm = make();
  square.drop();
  other_square.drop();
  scale_gradients();
  scale_gradients();
  return norm;
}

}  // namespace memest
