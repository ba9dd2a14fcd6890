#include "memest/spec/parallel/replicas.hpp"

#include <variant>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"

namespace memest {

// transformers 5.17, Trainer._build_accelerator_args: what ddp_find_unused_parameters is where
// nothing is written. With it DDP ends at a reentrant checkpoint ("marked as ready twice"): who
// runs one has turned it off.
bool finds_unused_parameters(const Job& job) {
  if (!job.training || !shards_by<ReplicasOfDdp>(job)) return false;
  if (job.parallelism.ddp.finds_unused) return *job.parallelism.ddp.finds_unused;
  if (!row_of(job.training->implementation.loop).accelerate) return false;
  const Recompute& recompute = job.training->recompute;
  const auto* full = std::get_if<FullRecompute>(&recompute);
  if (full != nullptr && full->reentrant) return false;
  return job.model.adapter || std::holds_alternative<NoRecompute>(recompute);
}

// trl 1.16, SFTTrainer.compute_loss and DPOTrainer._compute_loss: accelerator.gather_for_metrics.
// torchtune's distributed recipes: all_reduce(num_tokens), all_reduce(running_loss).
std::int64_t reporting_ranks(const TrainingSpec& training, const Parallelism& parallelism) {
  const LoopRow& loop = row_of(training.implementation.loop);
  return loop.takes_tiles || loop.sums_targets ? parallelism.data : 1;
}

}  // namespace memest
