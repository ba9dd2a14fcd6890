// Which operations run a second time in the backward pass.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/training.hpp"

namespace memest {

/// For each block of a graph, and each op of the block: how often its forward runs again in one
/// micro-step.
using Recomputations = std::vector<std::vector<std::int64_t>>;

Recomputations recomputations_of(const Graph& graph, const TrainingSpec& training);

}  // namespace memest
