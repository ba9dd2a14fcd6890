// The sizes of what autograd saves in one micro-step, tensor by tensor, where hooks pack it: each
// node's own, however many nodes save a tensor, and of a checkpoint what it is called with.
#pragma once

#include <cstdint>
#include <map>

#include "memest/graph/graph.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"

namespace memest {

/// How many tensors there are of each number of bytes. Throws OverflowError.
using SavedSizes = std::map<std::int64_t, std::int64_t>;

/// Layers of one stage. `graph` has its sizes bound.
SavedSizes saved_sizes(const Graph& graph, const CheckpointPlan& plan);

/// Those of what Transformer Engine's offload copies of the first `layers`: each storage once a
/// layer, however many of its nodes save it.
SavedSizes offloaded_sizes(const Graph& graph, std::int64_t layers);

}  // namespace memest
