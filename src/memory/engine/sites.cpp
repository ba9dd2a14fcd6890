#include "memory/engine/sites.hpp"

namespace memest {

namespace {

/// Which layers of a run of `repeat`, that stands behind `layers_before` others, are sites.
struct SitesOfRun {
  std::int64_t repeat = 0;
  std::int64_t layers_before = 0;
  std::int64_t period = 0;                 ///< of checkpoints
  std::int64_t most = 0;                   ///< the first so many of a stage alone have one; 0: all
  std::int64_t edge = 1;                   ///< how many at each end are places of their own
  const CheckpointPlan* chosen = nullptr;  ///< where it says of single layers that they have one

  [[nodiscard]] bool holds(std::int64_t layer) const {
    if (layer < edge || layer + edge >= repeat) return true;
    if (chosen != nullptr && differs_nearby(layers_before + layer)) return true;
    const std::int64_t behind = layers_before + layer - most;
    if (most > 0 && behind + edge >= 0 && behind < edge) return true;
    if (period < 2) return false;
    const bool ends = place_of(layer) == 0 || place_of(layer) + 1 == period;
    return ends && (layer < edge * period || layer + edge * period >= repeat);
  }

  /// Whether another within the edge is recomputed and `layer` of the stage is not, or it alone.
  [[nodiscard]] bool differs_nearby(std::int64_t layer) const {
    for (std::int64_t other = layer - edge; other <= layer + edge; ++other) {
      if (chosen->recomputes(other) != chosen->recomputes(layer)) return true;
    }
    return false;
  }

  /// Within its period.
  [[nodiscard]] std::int64_t place_of(std::int64_t layer) const {
    return (layers_before + layer) % period;
  }
};

}  // namespace

std::vector<Site> sites_of(const Graph& graph, std::span<const BlockRun> stage,
                           const SiteChoice& choice) {
  const std::int64_t period = choice.plan.length * choice.plan.every;
  std::vector<std::int64_t> before(graph.blocks.size());
  std::vector<std::int64_t> after(graph.blocks.size());
  for (const BlockRun& run : stage) after[run.block] += run.repeat;
  const std::int64_t layers = graph.layers(stage);
  std::int64_t layers_before = 0;
  std::vector<Site> sites;
  for (const BlockRun& run : stage) {
    const Block& block = graph.blocks[run.block];
    const SitesOfRun sites_of_run{
        .repeat = run.repeat,
        .layers_before = layers_before,
        .period = block.checkpointable ? period : 0,
        .most = block.checkpointable ? choice.plan.most : 0,
        .edge = block.checkpointable && choice.neighbours ? 2 : 1,
        .chosen = block.checkpointable && !choice.plan.chosen.empty() ? &choice.plan : nullptr};
    for (std::int64_t i = 0; i < run.repeat; ++i) {
      --after[run.block];
      if (sites_of_run.holds(i)) {
        std::string name = block.name;
        if (block.checkpointable) {
          name = "layer " + std::to_string(layers_before + 1) + " of " + std::to_string(layers);
        }
        sites.push_back({run.block, before, after, layers_before, 0, std::move(name)});
      }
      ++before[run.block];
      if (block.checkpointable) ++layers_before;
    }
  }
  return sites;
}

}  // namespace memest
