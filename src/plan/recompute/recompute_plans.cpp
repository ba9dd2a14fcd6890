#include "plan/recompute/recompute_plans.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "memest/spec/framework.hpp"
#include "memest/spec/layer_blocks.hpp"
#include "memest/spec/recompute/layer_parts.hpp"

namespace memest {
namespace {

/// None, the first layer of a stage, the first two, ... all.
RecomputeFamily first_layers(std::int64_t layers) {
  RecomputeFamily family{{NoRecompute{}}};
  for (std::int64_t count = 1; count < layers; ++count) {
    family.plans.emplace_back(FullRecompute{.method = RecomputeMethod::block, .layers = count});
  }
  family.plans.emplace_back(FullRecompute{});
  return family;
}

/// One layer of every j, the fewest first.
RecomputeFamily single_layers(std::int64_t layers) {
  RecomputeFamily family{{NoRecompute{}}};
  std::int64_t recomputed = 0;
  for (std::int64_t every = layers; every > 1; --every) {
    // The largest j of those with as many recomputed layers.
    if (std::exchange(recomputed, layers / every) == layers / every) continue;
    family.plans.emplace_back(EveryRecompute{every});
  }
  family.plans.emplace_back(FullRecompute{});
  return family;
}

/// Groups of 2, 3, 4, 5, 7, 9, 12, ... layers up to their root, where they keep least.
RecomputeFamily groups(std::int64_t layers) {
  RecomputeFamily family{{}, false};
  for (std::int64_t every = 2; (every - 1) * (every - 1) < layers; every += (every + 1) / 3) {
    family.plans.emplace_back(EveryRecompute{every});
  }
  return family;
}

}  // namespace

std::vector<RecomputeFamily> recompute_families(const Job& job) {
  const std::int64_t layers = checkpointable_layers(job.model).value_or(0) /
                              std::max<std::int64_t>(job.parallelism.pipeline, 1);
  const RecomputeFamily selective{{SelectiveRecompute{}}};
  const FrameworkRow& row = row_of(job.training->implementation.framework);
  switch (row.checkpoints) {
    case CheckpointRule::torch:
      if (row.keeps_contractions) return {first_layers(layers), selective, groups(layers)};
      return {first_layers(layers), groups(layers)};
    case CheckpointRule::layers:
      return {single_layers(layers), selective};
    case CheckpointRule::megatron:
      if (const auto remade = remade_parts_of(job)) {
        SelectiveRecompute with_experts = *remade;
        with_experts.experts = parts_of_layers(job).experts;
        with_experts.expert_activation = false;
        return {first_layers(layers), selective, RecomputeFamily{{*remade, with_experts}}};
      }
      return {first_layers(layers), selective};
    case CheckpointRule::reentrant:
      return {RecomputeFamily{{FullRecompute{}}}};
    case CheckpointRule::formula:
      break;
  }
  return {};
}

}  // namespace memest
