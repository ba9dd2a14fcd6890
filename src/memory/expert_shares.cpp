#include "expert_shares.hpp"

#include "memest/units/int128.hpp"
#include "model_states.hpp"

namespace memest {

Expr optimizer_share(const Job& job, std::int64_t bytes, const Expr& all) {
  const Expr evenly = share(job, ZeroStage::optimizer, all);
  if (job.parallelism.expert == 1 || evenly == all) return evenly;
  const Expr more = (Expr(Symbol::expert) - 1) * Expr(Symbol::expert_parameters);
  return evenly + share(job, ZeroStage::optimizer, bytes * more);
}

Expr larger_share(const Job& job, const Inventory& inventory, std::int64_t bytes, const Expr& all) {
  std::int64_t more = 0;  // of experts than of the rest, on a rank
  const bool divided = share(job, ZeroStage::optimizer, all) != all;
  const std::int64_t times = divided ? job.parallelism.expert : 1;
  bool has_experts = false;
  for (const ParameterTensor& tensor : inventory.parameters) {
    const std::int64_t elements = checked_multiply(elements_of(tensor), tensor.count);
    more = checked_add(more, tensor.expert_parallel ? elements * times : -elements);
    has_experts = has_experts || tensor.expert_parallel;
  }
  if (!has_experts) return optimizer_share(job, bytes, all);
  const Expr experts = bytes * Expr(Symbol::expert_parameters);
  if (more < 0) return share(job, ZeroStage::optimizer, all - experts);
  return share(job, ZeroStage::optimizer, divided ? Expr(Symbol::expert) * experts : experts);
}

}  // namespace memest
