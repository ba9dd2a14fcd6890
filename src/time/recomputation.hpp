// Which operations run a second time in the backward pass.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"
#include "memest/spec/training.hpp"

namespace memest {

/// How often an op's forward is recomputed in one micro-step.
struct Recomputation {
  std::int64_t whole = 0;
  std::int64_t casts = 0;  ///< these alone: a selective checkpoint kept the product
};

/// For each block of a graph, and each op of the block.
using Recomputations = std::vector<std::vector<Recomputation>>;

/// `stages` are the layers of each stage into which a pipeline cuts the graph's.
Recomputations recomputations_of(const Graph& graph, const TrainingSpec& training,
                                 std::span<const std::int64_t> stages);

/// How much more of its layers a stage of `count` recomputes than a single stage of all does.
double over_single_stage(const CheckpointPlan& plan, std::int64_t count, std::int64_t all);

}  // namespace memest
