// Where DeepSpeed's ZeRO 1 and 2 put the weights together into one flat tensor, before the first
// step.
#pragma once

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// On the host, because the GPU has no room for the flat tensor beside the weights. Only where the
/// optimizer is offloaded: the host is held to nothing else. Throws OverflowError.
bool flattens_on_host(const Graph& graph, const Job& job);

}  // namespace memest
