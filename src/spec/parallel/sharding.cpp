#include "memest/spec/parallel/sharding.hpp"

#include <algorithm>

#include "memest/diag/expect.hpp"
#include "memest/spec/framework.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

Sharding by_units(const Parallelism& parallelism) {
  const FullySharded& written = *parallelism.fsdp;
  const GatheredUnits units{parallelism.reshard(), written.replicate, written.init};
  if (parallelism.shards_flat()) {
    return FlatShards{{units}, written.sync_module_states, written.trained_apart, written.no_sync};
  }
  return RowShards{{units}};
}

/// DeepSpeed 0.6.7, engine.py, _configure_zero_optimizer: "Overlap and contiguous grads are
/// meaningless in stage 1 and are ignored".
DeepSpeedZero around_megatron(const Parallelism& parallelism) {
  DeepSpeedZero zero{ZeroStage::optimizer, parallelism.deepspeed};
  zero.settings.contiguous_gradients = false;
  zero.settings.overlap_comm = false;
  return zero;
}

Sharding of_training(const TrainingSpec& training, const Parallelism& parallelism) {
  const FrameworkRow& framework = row_of(training.implementation.framework);
  // Megatron's DistributedDataParallel has its buffer with one replica too, whole or divided.
  if (framework.sharer == Sharer::megatron) {
    if (training.implementation.deepspeed) return around_megatron(parallelism);
    if (parallelism.zero == ZeroStage::optimizer_gradients_weights) {
      BucketShards shards;
      shards.init = parallelism.init_on_meta_device ? ShardInit::meta : ShardInit::device;
      return shards;
    }
    return MegatronBuffer{parallelism.distributed_optimizer};
  }
  if (framework.sharer == Sharer::nanotron) {
    GradientAccumulator accumulator{parallelism.zero == ZeroStage::optimizer};
    // trainer.py: _init_model wraps what has several replicas.
    if (parallelism.data > 1) accumulator.buckets = parallelism.ddp;
    return accumulator;
  }
  if (parallelism.fsdp) return by_units(parallelism);
  if (training.recipe.gathered_units) {
    return SharesOfFormula{ZeroStage::optimizer_gradients_weights, true};
  }
  const bool zero = parallelism.zero != ZeroStage::none;
  if (zero && framework.sharer != Sharer::deepspeed) return SharesOfFormula{parallelism.zero};
  const bool several = parallelism.data > 1;
  if (zero && (several || parallelism.offload.any())) {
    return DeepSpeedZero{parallelism.zero, parallelism.deepspeed};
  }
  // DeepSpeed reduces the gradients itself, at stage 0 as well; DDP's buckets are there without it.
  if (several && !zero && framework.ddp) return ReplicasOfDdp{parallelism.ddp};
  return Unsharded{};
}

/// No program that shards runs a forward alone: what there is of it are the shares.
Sharding of_inference(const InferenceSpec& inference, const Parallelism& parallelism) {
  if (parallelism.fsdp) return by_units(parallelism);
  if (inference.recipe.gathered_units) {
    return SharesOfFormula{ZeroStage::optimizer_gradients_weights, true};
  }
  if (parallelism.zero != ZeroStage::none) return SharesOfFormula{parallelism.zero};
  return Unsharded{};
}

}  // namespace

Sharding sharding_of(const Job& job) {
  if (job.training) return of_training(*job.training, job.parallelism);
  expect(job.inference.has_value(), "what has no pass has no states to share");
  return of_inference(*job.inference, job.parallelism);
}

Sharding sharding_of(const TrainingSpec& training, const Parallelism& parallelism) {
  return of_training(training, parallelism);
}

bool is_megatron_deepspeed(const Job& job) {
  return job.training && job.training->implementation.deepspeed;
}

bool adds_to_gradient_buffer(const Implementation& implementation) {
  return row_of(implementation.framework).gradient_buffer && !implementation.deepspeed;
}

bool reduces_frozen_weights(const Job& job) {
  const Sharding sharding = sharding_of(job);
  const auto* flat = std::get_if<FlatShards>(&sharding);
  return flat != nullptr && !flat->trained_apart && job.model.adapter;
}

std::int64_t overlapped_bucket_elements(std::int64_t ranks) {
  constexpr std::int64_t kLeast = 40'000'000;
  constexpr std::int64_t kOfARank = 1'000'000;
  return std::max(kLeast, checked_multiply(kOfARank, ranks));
}

const GatheredUnits* units_of(const Sharding& sharding) {
  if (const auto* flat = std::get_if<FlatShards>(&sharding)) return flat;
  if (const auto* buckets = std::get_if<BucketShards>(&sharding)) return buckets;
  return std::get_if<RowShards>(&sharding);
}

ZeroStage zero_stage_of(const Sharding& sharding) {
  if (units_of(sharding) != nullptr) return ZeroStage::optimizer_gradients_weights;
  if (const auto* zero = std::get_if<DeepSpeedZero>(&sharding)) return zero->stage;
  if (const auto* shares = std::get_if<SharesOfFormula>(&sharding)) return shares->stage;
  if (const auto* accumulator = std::get_if<GradientAccumulator>(&sharding)) {
    return accumulator->divides_optimizer ? ZeroStage::optimizer : ZeroStage::none;
  }
  const auto* buffer = std::get_if<MegatronBuffer>(&sharding);
  return buffer != nullptr && buffer->divides_optimizer ? ZeroStage::optimizer : ZeroStage::none;
}

}  // namespace memest
