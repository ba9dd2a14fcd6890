// Who shards a job's states over the GPUs that share its data: one answer, made of what a spec
// writes, of its framework and of its precision. Who asks how a job shards asks here, not for the
// keys that were written.
#pragma once

#include <variant>

#include "memest/spec/job.hpp"

namespace memest {

/// Every GPU keeps all states of what it steps, and nobody reduces gradients in buckets.
struct Unsharded {};
/// Whole replicas, whose gradients torch's DistributedDataParallel reduces.
struct ReplicasOfDdp {};
/// ZeRO 1 to 3 of DeepSpeed; on one GPU where it offloads.
struct DeepSpeedZero {
  ZeroStage stage = ZeroStage::optimizer;
};
/// FSDP1: a flat tensor a unit, cut into equal shares.
struct FlatShards {};
/// FSDP2 and HSDP: every parameter by itself, along its rows.
struct RowShards {};
/// Megatron's DDP: one buffer of gradients, whose optimizer may step a share of it a rank.
struct MegatronBuffer {
  bool distributed_optimizer = false;
};
/// The shares alone, of no program: the textbook's ZeRO, a precision that gathers unit by unit.
struct SharesOfFormula {
  ZeroStage stage = ZeroStage::none;
};

using Sharding = std::variant<Unsharded, ReplicasOfDdp, DeepSpeedZero, FlatShards, RowShards,
                              MegatronBuffer, SharesOfFormula>;

/// Of a job with a forward pass.
Sharding sharding_of(const Job& job);

/// Whether `Kind` is how the job's states are shared.
template <class Kind>
bool shards_by(const Job& job) {
  return std::holds_alternative<Kind>(sharding_of(job));
}

/// What is cut over the ranks: FSDP and precisions that gather units cut everything.
ZeroStage zero_stage_of(const Recipe& recipe, const Parallelism& parallelism);

}  // namespace memest
