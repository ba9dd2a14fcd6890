// Habits of a program around FSDP: where the weights are before they are sharded, and when
// gradients are reduced.
#pragma once

#include <optional>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// Where the weights are before FSDP shards them: where the spec is silent, as the examples of
/// PyTorch, transformers and torchtitan have it. There is FSDP.
ShardInit shard_init(const Job& job);

/// Whether the model answers in the type in which its units are gathered, the loss too.
bool casts_loss(const Job& job);

/// Whether gradients stay whole until a step's last micro-step reduces them.
bool reduces_last(const Job& job);

/// Why DistributedDataParallel ends before its second forward, or nothing.
std::optional<Unavailable> unused_refusal(const Job& job, const Inventory& inventory);

/// Why it is not known when units are gathered, or nothing.
std::optional<Unavailable> gathers_refusal(const Job& job);

}  // namespace memest
