// The wrapper around a model, by how the job's states are sharded: FSDP1, FSDP2, DDP, or hooks that
// step each parameter in the backward.
#pragma once

#include <cstdint>
#include <memory>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"
#include "memory/engine/block_hooks.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/sharding/model_placement.hpp"
#include "memory/sharding/sharded_units.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

/// A model to wrap; all of it outlives the wrapper.
struct Wrapped {
  const Job& job;
  const Graph& graph;
  const Inventory& inventory;
  const ForwardOrder& order;
  std::int64_t data_rank = 0;
};

/// The wrapper around the model; null where there is none.
struct Wrapper {
  std::unique_ptr<BlockHooks> hooks;
  ShardedUnits* units = nullptr;  ///< where these are the hooks
};

/// Returns the wrapper, with what its constructor makes.
Wrapper wrapper_of(const Wrapped& wrapped, ModelPlacement& placement, Recorder& recorder);

}  // namespace memest
