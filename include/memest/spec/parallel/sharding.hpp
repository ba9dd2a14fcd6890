// Who shards a job's states over the GPUs that share its data: one answer, made of what a spec
// writes, of its framework and of its precision, with all that the sharer's users ask of it. Who
// asks how a job shards asks here, not for the keys that were written (sharing.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "memest/spec/job.hpp"

namespace memest {

/// Every GPU keeps all states of what it steps, and nobody reduces gradients in buckets.
struct Unsharded {};
/// Whole replicas, whose gradients torch's DistributedDataParallel reduces.
struct ReplicasOfDdp {
  DataParallelBuckets buckets;
};
/// ZeRO 1 to 3 of DeepSpeed; on one GPU where it offloads.
struct DeepSpeedZero {
  ZeroStage stage = ZeroStage::optimizer;
  DeepSpeed settings;

  /// Stages 1 and 2 step one flat tensor, of which each rank has a part.
  [[nodiscard]] bool is_flat() const { return !shards_weights(); }
  [[nodiscard]] bool shards_weights() const {
    return stage == ZeroStage::optimizer_gradients_weights;
  }
  [[nodiscard]] bool overlaps() const { return settings.overlap_comm.value_or(shards_weights()); }
};
/// Units that FSDP gathers for their passes and reduces behind them.
struct GatheredUnits {
  Reshard reshard = Reshard::always;   ///< which of them give their weights back
  std::int64_t replicas = 1;           ///< of the sharded model (HSDP)
  std::optional<ShardInit> init = {};  ///< absent: the framework's own habit
};
/// FSDP1: a flat tensor a unit, cut into equal shares.
struct FlatShards : GatheredUnits {
  bool sync_module_states = false;  ///< the first rank's weights go to all
  bool trained_apart = false;       ///< every trained leaf module is a unit of its own
  bool no_sync = false;             ///< gradients are whole until a step's last micro-step
};
/// FSDP2 and HSDP: every parameter by itself, along its rows.
struct RowShards : GatheredUnits {};
/// Megatron-FSDP: a bucket a layer, cut into equal shares.
struct BucketShards : GatheredUnits {};
/// Megatron's DDP: one buffer of gradients, whose optimizer may step a share of it a rank.
struct MegatronBuffer {
  bool divides_optimizer = false;
};
/// nanotron's FP32GradientAccumulator: one buffer of gradients beside those of a backward. Several
/// replicas have DDP's buckets as well; the optimizer may step a part of every parameter a rank.
struct GradientAccumulator {
  bool divides_optimizer = false;
  std::optional<DataParallelBuckets> buckets = {};
};
/// The shares alone, of no program: the textbook's ZeRO, a precision that gathers unit by unit.
struct SharesOfFormula {
  ZeroStage stage = ZeroStage::none;
  bool in_units = false;
};

using Sharding = std::variant<Unsharded, ReplicasOfDdp, DeepSpeedZero, FlatShards, RowShards,
                              BucketShards, MegatronBuffer, GradientAccumulator, SharesOfFormula>;

/// How the states of a job with a forward pass are sharded.
Sharding sharding_of(const Job& job);
Sharding sharding_of(const TrainingSpec& training, const Parallelism& parallelism);

/// Whether DeepSpeed's engine and optimizers run Megatron's layers.
bool is_megatron_deepspeed(const Job& job);
/// Whether gradients are added up in one buffer that is there for good: Megatron's own.
bool adds_to_gradient_buffer(const Implementation& implementation);

/// Whether frozen weights beside an adapter get gradients and are reduced, as views of one flat
/// tensor with it (FSDP1, use_orig_params).
bool reduces_frozen_weights(const Job& job);

/// Elements of a bucket of Megatron whose gradients travel beside the backward: at least 40 M, and
/// 1 M a data-parallel rank (megatron-core 0.16, distributed/distributed_data_parallel.py). A ring
/// cuts a bucket into as many parts as it has ranks, and small parts are bound by latency.
std::int64_t overlapped_bucket_elements(std::int64_t ranks);

/// Whether `Kind` is how the job's states are shared.
template <class Kind>
bool shards_by(const Job& job) {
  return std::holds_alternative<Kind>(sharding_of(job));
}

/// FSDP's units, of whichever program; null where it does not shard. Part of `sharding`.
const GatheredUnits* units_of(const Sharding& sharding);
/// The states that are cut over the ranks, in ZeRO's stages.
ZeroStage zero_stage_of(const Sharding& sharding);

}  // namespace memest
