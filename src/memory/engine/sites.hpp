// Places of the forward order where a peak may stand: the first and the last layer of every run,
// and where one checkpoint holds several layers, the first and the last layer of its first and of
// its last one. Between them the sums are linear, so no place between is larger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"

namespace memest {

struct Site {
  std::size_t block = 0;             ///< index into Graph::blocks
  std::vector<std::int64_t> before;  ///< for each block, how many stand before this one
  std::vector<std::int64_t> after;   ///< and how many after
  std::int64_t layers_before = 0;    ///< checkpointable blocks before this one
  std::size_t stage = 0;             ///< of the graph's
  std::string name;                  ///< "layer 32 of 32", "head"
};

/// Which places count.
struct SiteChoice {
  CheckpointPlan plan;
  /// Tells layers apart by what their neighbours are made of too, so that the second and the last
  /// but one are sites of their own.
  bool neighbours = false;
};

/// The sites of one of the graph's stages, in forward order.
std::vector<Site> sites_of(const Graph& graph, std::span<const BlockRun> stage,
                           const SiteChoice& choice);

}  // namespace memest
