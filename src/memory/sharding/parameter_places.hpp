// Which of the model's tensors a block reads: blocks name their parameters by the op that reads
// them, in the order of the forward; Module.parameters() lists them as modules register them.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/memory/timeline.hpp"
#include "memory/engine/forward_order.hpp"

namespace memest {

/// For each of ForwardOrder::parameters() its index into Timeline::parameters.
std::vector<std::uint32_t> parameter_places(const Graph& graph, const ForwardOrder& order,
                                            const Timeline& timeline);

}  // namespace memest
