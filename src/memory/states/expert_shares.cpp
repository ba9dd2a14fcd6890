#include "memory/states/expert_shares.hpp"

#include "memest/spec/framework.hpp"
#include "memest/units/int128.hpp"
#include "memory/states/model_states.hpp"

namespace memest {
namespace {

/// How many times as few replicas an expert has as all else.
Expr fewer_replicas(const Parallelism& parallelism) {
  // Megatron's expert-data-parallel group has data · tensor / expert ranks where experts are whole
  // (expert tensor parallelism of 1). With 8 expert- and 2 tensor-parallel ranks a rank steps 8 / 2
  // = 4 times as large a share of an expert as of any other parameter.
  const Expr ranks = Symbol::expert;
  return parallelism.whole_experts() ? ranks / Expr(Symbol::tensor) : ranks;
}

}  // namespace

Expr share_with_experts(const Job& job, ZeroStage stage, const Expr& all, const Expr& experts) {
  const Expr evenly = share_of_stage(job, stage, all);
  if (job.parallelism.expert == 1 || evenly == all) return evenly;
  // `evenly` holds one share of all; an expert's share is larger by as many more as it has fewer
  // replicas.
  return evenly + share_of_stage(job, stage, (fewer_replicas(job.parallelism) - 1) * experts);
}

Expr unit_share_of_experts(const Job& job, const Expr& elements) {
  return fewer_replicas(job.parallelism) * unit_share(job, elements);
}

Expr optimizer_share(const Job& job, std::int64_t bytes, const Expr& all) {
  return share_with_experts(job, ZeroStage::optimizer, all,
                            bytes * Expr(Symbol::expert_parameters));
}

Expr larger_share(const Job& job, const Inventory& inventory, std::int64_t bytes, const Expr& all) {
  std::int64_t more = 0;  // of experts than of the rest, on a rank
  const bool divided = share_of_stage(job, ZeroStage::optimizer, all) != all;
  const Parallelism& parallelism = job.parallelism;
  const std::int64_t times = divided ? parallelism.expert : 1;
  const std::int64_t others = divided && parallelism.whole_experts() ? parallelism.tensor : 1;
  bool has_experts = false;
  for (const ParameterTensor& tensor : inventory.parameters) {
    const std::int64_t elements = checked_multiply(elements_of(tensor), tensor.count);
    more = checked_add(more, tensor.expert_parallel ? elements * times : -elements * others);
    has_experts = has_experts || tensor.expert_parallel;
  }
  if (!has_experts) return optimizer_share(job, bytes, all);
  const Expr experts = bytes * Expr(Symbol::expert_parameters);
  if (!row_of(job.training->implementation.framework).gradient_buffer) {
    return optimizer_share(job, bytes, all);
  }
  // Megatron's ChainedOptimizer steps one optimizer after the other: their temporaries never meet.
  if (more < 0) return share_of_stage(job, ZeroStage::optimizer, all - experts);
  return share_of_stage(job, ZeroStage::optimizer,
                        divided ? fewer_replicas(parallelism) * experts : experts);
}

}  // namespace memest
