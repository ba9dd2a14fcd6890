#include "memory/states/scaled_states.hpp"

#include <algorithm>

#include "memest/units/int128.hpp"
#include "memory/states/expert_shares.hpp"
#include "memory/states/model_states.hpp"

namespace memest {
namespace {

std::int64_t count_of_scaled(const Optimizer& optimizer) {
  return std::ranges::count_if(optimizer.states, &OptimizerState::scaled);
}

/// Elements of the largest piece of a parameter that a rank steps: a flat share holds a parameter
/// whole unless it is shorter.
std::int64_t largest_piece(const Job& job, const Inventory& inventory) {
  std::int64_t largest = 0;
  std::int64_t all = 0;
  for (const ParameterTensor& tensor : inventory.parameters) {
    if (!tensor.trainable) continue;
    largest = std::max(largest, elements_of(tensor));
    all = checked_add(all, checked_multiply(elements_of(tensor), tensor.count));
  }
  return std::min(largest, all / job.parallelism.shard_ranks());
}

}  // namespace

bool steps_in_copies(const Optimizer& optimizer) { return optimizer.typed; }

std::int64_t narrowing_bytes(const OptimizerState& state) {
  return state.scaled && state.dtype == DType::bf16 ? size_of(DType::bf16) : 0;
}

std::vector<LedgerTerm> scale_terms(const Job& job, const Inventory& inventory) {
  const std::int64_t states = count_of_scaled(job.training->optimizer);
  if (states == 0) return {};
  std::int64_t tensors = 0;
  for (const ParameterTensor& tensor : inventory.parameters) {
    if (tensor.trainable) tensors = checked_add(tensors, tensor.count);
  }
  const Expr bytes(checked_multiply(checked_multiply(states, kStateScaleBytes), tensors));
  return {{"scales of narrow states", TermGroup::optimizer,
           share_of_stage(job, ZeroStage::optimizer, bytes), job.training->optimizer.source,
           "one fp32 a tensor and narrow state"}};
}

std::vector<LedgerTerm> widening_terms(const Job& job, const Inventory& inventory) {
  const Optimizer& optimizer = job.training->optimizer;
  const std::int64_t states = count_of_scaled(optimizer);
  if (states == 0) return {};
  const std::int64_t bytes = checked_multiply(states, size_of(kSteppedState));
  std::vector<LedgerTerm> terms{
      {"fp32 copies of narrow states", TermGroup::optimizer,
       larger_share(job, inventory, bytes, bytes * trained_parameters(inventory)), optimizer.source,
       ""}};
  std::int64_t narrowing = 0;
  for (const OptimizerState& state : optimizer.states) {
    narrowing = std::max(narrowing, narrowing_bytes(state));
  }
  if (narrowing == 0) return terms;
  terms.push_back({"the largest parameter's state on its way back", TermGroup::optimizer,
                   Expr(checked_multiply(narrowing, largest_piece(job, inventory))),
                   optimizer.source, "bf16 elements of the largest piece that the rank steps"});
  return terms;
}

}  // namespace memest
