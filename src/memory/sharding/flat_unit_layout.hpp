// How FullyShardedDataParallel (FSDP1) cuts a model: a unit a layer, and with peft's
// fsdp_auto_wrap_policy one for every leaf module that is trained beside the frozen rest.
#pragma once

#include <vector>

#include "memest/graph/graph.hpp"
#include "memory/sharding/unit_layout.hpp"

namespace memest {

/// The units of `job` in the order in which their forwards end; the root is the last.
std::vector<ShardedUnit> flat_units(const Job& job, const Graph& graph, const ForwardOrder& order,
                                    const Timeline& timeline);

}  // namespace memest
