// Blocks of a graph that run as a model of their own.
#pragma once

#include <cstdint>
#include <span>

#include "memest/graph/graph.hpp"
#include "memest/memory/timeline.hpp"

namespace memest {

struct GraphPart {
  Graph graph;              ///< the blocks alone, of which none has a backward
  std::uint32_t place = 0;  ///< of the first among Timeline::places
};

/// The blocks that `order` runs of `whole`, whose places are told to `timeline`.
GraphPart part_of(const Graph& whole, std::span<const BlockRun> order, Timeline& timeline);

}  // namespace memest
