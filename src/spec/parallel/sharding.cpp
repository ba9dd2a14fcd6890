#include "memest/spec/parallel/sharding.hpp"

#include "memest/diag/expect.hpp"
#include "memest/spec/framework.hpp"

namespace memest {

Sharding sharding_of(const Job& job) {
  const ForwardSpec* forward = job.forward();
  expect(forward != nullptr, "what has no pass has no states to share");
  const FrameworkRow& framework = row_of(forward->implementation.framework);
  const Parallelism& parallelism = job.parallelism;
  if (framework.sharer == Sharer::megatron) {
    return MegatronBuffer{parallelism.distributed_optimizer};
  }
  if (parallelism.shards_flat()) return FlatShards{};
  if (parallelism.shards_rows()) return RowShards{};
  const bool zero = parallelism.zero != ZeroStage::none;
  if (forward->recipe.gathered_units || (zero && framework.sharer != Sharer::deepspeed)) {
    return SharesOfFormula{zero_stage_of(forward->recipe, parallelism)};
  }
  const bool several = parallelism.data > 1;
  if (!job.training) return Unsharded{};
  if (zero && (several || parallelism.offload.any())) return DeepSpeedZero{parallelism.zero};
  if (several && !zero && framework.ddp) return ReplicasOfDdp{};
  return Unsharded{};
}

ZeroStage zero_stage_of(const Recipe& recipe, const Parallelism& parallelism) {
  return recipe.gathered_units ? ZeroStage::optimizer_gradients_weights : parallelism.zero;
}

}  // namespace memest
