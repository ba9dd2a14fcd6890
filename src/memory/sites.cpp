#include "sites.hpp"

#include <variant>

namespace memest {
namespace {

struct CheckpointLength {
  std::int64_t layers;

  std::int64_t operator()(const NoRecompute&) const { return 0; }
  std::int64_t operator()(const SelectiveRecompute&) const { return 0; }
  std::int64_t operator()(const FullRecompute& recompute) const {
    return recompute.layers;
  }
  std::int64_t operator()(const EveryRecompute& recompute) const { return recompute.every; }
  std::int64_t operator()(const SqrtRecompute&) const {
    std::int64_t checkpoints = 1;  // ⌈√L⌉
    while (checkpoints * checkpoints < layers) ++checkpoints;
    return (layers + checkpoints - 1) / checkpoints;
  }
};

}  // namespace

std::int64_t checkpoint_length(const Recompute& recompute, std::int64_t layers) {
  return std::visit(CheckpointLength{layers}, recompute);
}

std::vector<std::span<const BlockRun>> stages_of(const Graph& graph) {
  const std::span<const BlockRun> order(graph.order);
  if (graph.stages.empty()) return {order};
  std::vector<std::span<const BlockRun>> stages;
  for (std::size_t i = 0; i < graph.stages.size(); ++i) {
    const std::size_t end = i + 1 < graph.stages.size() ? graph.stages[i + 1] : order.size();
    stages.push_back(order.subspan(graph.stages[i], end - graph.stages[i]));
  }
  return stages;
}

std::int64_t layers_of(const Graph& graph, std::span<const BlockRun> stage) {
  std::int64_t layers = 0;
  for (const BlockRun& run : stage) {
    if (graph.blocks[run.block].checkpointable) layers += run.repeat;
  }
  return layers;
}

std::int64_t layers_of(const Graph& graph) { return layers_of(graph, graph.order); }

namespace {

/// Which layers of a run of `repeat`, that stands behind `layers_before` others, are sites.
class SitesOfRun {
 public:
  SitesOfRun(std::int64_t repeat, std::int64_t layers_before, std::int64_t checkpoint)
      : repeat_(repeat), layers_before_(layers_before), checkpoint_(checkpoint) {}

  [[nodiscard]] bool holds(std::int64_t layer) const {
    if (layer == 0 || layer + 1 == repeat_) return true;
    if (checkpoint_ < 2) return false;
    const bool edge = place_of(layer) == 0 || place_of(layer) + 1 == checkpoint_;
    return edge && (layer < checkpoint_ || layer + checkpoint_ >= repeat_);
  }

 private:
  /// Within its checkpoint.
  [[nodiscard]] std::int64_t place_of(std::int64_t layer) const {
    return (layers_before_ + layer) % checkpoint_;
  }

  std::int64_t repeat_;
  std::int64_t layers_before_;
  std::int64_t checkpoint_;
};

}  // namespace

std::vector<Site> sites_of(const Graph& graph, std::span<const BlockRun> stage,
                           std::int64_t checkpoint) {
  std::vector<std::int64_t> before(graph.blocks.size());
  std::vector<std::int64_t> after(graph.blocks.size());
  for (const BlockRun& run : stage) after[run.block] += run.repeat;
  const std::int64_t layers = layers_of(graph, stage);
  std::int64_t layers_before = 0;
  std::vector<Site> sites;
  for (const BlockRun& run : stage) {
    const Block& block = graph.blocks[run.block];
    const SitesOfRun sites_of_run(run.repeat, layers_before, block.checkpointable ? checkpoint : 0);
    for (std::int64_t i = 0; i < run.repeat; ++i) {
      --after[run.block];
      if (sites_of_run.holds(i)) {
        std::string name = block.name;
        if (block.checkpointable) {
          name = "layer " + std::to_string(layers_before + 1) + " of " + std::to_string(layers);
        }
        sites.push_back({run.block, before, after, layers_before, std::move(name)});
      }
      ++before[run.block];
      if (block.checkpointable) ++layers_before;
    }
  }
  return sites;
}

}  // namespace memest
