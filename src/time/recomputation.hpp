// Which operations run a second time in the backward pass.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/checkpoint_plan.hpp"
#include "memest/spec/training.hpp"

namespace memest {

/// For each block of a graph, and each op of the block: how often its forward is recomputed in one
/// micro-step.
using Recomputations = std::vector<std::vector<std::int64_t>>;

/// `stages` are the layers of each stage into which a pipeline cuts the graph's.
Recomputations recomputations_of(const Graph& graph, const TrainingSpec& training,
                                 std::span<const std::int64_t> stages);

/// How much more of its layers a stage of `count` recomputes than a single stage of all does.
double over_single_stage(const CheckpointPlan& plan, std::int64_t count, std::int64_t all);

}  // namespace memest
