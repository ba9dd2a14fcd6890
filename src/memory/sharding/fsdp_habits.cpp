#include "memory/sharding/fsdp_habits.hpp"

#include <algorithm>
#include <string>

#include "memest/diag/expect.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/coded_rows.hpp"
#include "memest/spec/parallel/float8_rows.hpp"
#include "memest/spec/parallel/replicas.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"

namespace memest {
namespace {

bool runs_trainer(const Job& job) {
  return job.training && row_of(job.training->implementation.loop).accelerate;
}

bool runs_trainer_with_fsdp2(const Job& job) {
  return runs_trainer(job) && shards_by<RowShards>(job);
}

}  // namespace

// transformers 5.17, TrainingArguments._process_fsdp_args: cpu_ram_efficient_loading is off.
// PyTorch's tutorials: FSDP2's model is made on the meta device, as in torchtitan 0.2.2, FSDP1's
// on the host, with device_id.
ShardInit shard_init(const Job& job) {
  const Sharding sharding = sharding_of(job);
  const GatheredUnits* units = units_of(sharding);
  expect(units != nullptr, "FSDP alone has shards to make");
  if (units->init) return *units->init;
  const bool flat = std::holds_alternative<FlatShards>(sharding);
  return flat || runs_trainer(job) ? ShardInit::host : ShardInit::meta;
}

// accelerate 1.15, FullyShardedDataParallelPlugin.set_mixed_precision: output_dtype is param_dtype.
bool casts_loss(const Job& job) {
  // A loss that is taken outside of the model is of what it has cast.
  return runs_trainer_with_fsdp2(job) && job.training->recipe.casts_gathered() &&
         !row_of(job.training->implementation.loop).takes_tiles;
}

bool reduces_last(const Job& job) {
  const Sharding sharding = sharding_of(job);
  const auto* flat = std::get_if<FlatShards>(&sharding);
  if (flat != nullptr) return flat->no_sync && job.training->gradient_accumulation > 1;
  return (shards_by<RowShards>(job) || shards_by<ReplicasOfDdp>(job)) &&
         !row_of(job.training->implementation.loop).no_sync.empty() &&
         job.training->gradient_accumulation > 1;
}

std::optional<Unavailable> unused_refusal(const Job& job, const Inventory& inventory) {
  if (!shards_by<ReplicasOfDdp>(job) || finds_unused_parameters(job)) return std::nullopt;
  const auto unread = std::ranges::find_if(inventory.parameters, &ParameterTensor::unread);
  if (unread == inventory.parameters.end()) return std::nullopt;
  return Unavailable{
      "DistributedDataParallel ends before its second forward: no gradient comes to '" +
      unread->name +
      "' (write 'find_unused_parameters: true' in 'ddp', or leave its part out of "
      "what is trained)"};
}

// GradientCheckpointingLayer.__call__ runs FSDPState's hooks inside of the checkpoint: the
// reentrant one's first forward has no gradient, so that no hook waits for its backward, its second
// gathers the unit once more and lets it go, and FSDPParamGroup._backward_prefetch takes the unit
// behind it for the next.
std::optional<Unavailable> gathers_refusal(const Job& job) {
  if (!shards_by<RowShards>(job)) return std::nullopt;
  const std::int64_t ranks = job.parallelism.shard_ranks();
  if (const auto rows = uneven_float8_rows(job, ranks)) {
    return Unavailable{
        "weights gathered in fp8 lie in equal shares of rows: " + std::to_string(*rows) +
        " rows do not divide among " + std::to_string(ranks) + " ranks"};
  }
  if (const auto linear = uneven_codes(job, ranks)) {
    return Unavailable{"torchao's NF4 tensors lie in equal shares: the codes of '" +
                       std::string(*linear) + "' or their scales do not divide among " +
                       std::to_string(ranks) + " ranks"};
  }
  if (!is_reentrant(job.recompute())) return std::nullopt;
  return Unavailable{"reentrant checkpoints of units that FSDP2 shards are not available yet"};
}

}  // namespace memest
