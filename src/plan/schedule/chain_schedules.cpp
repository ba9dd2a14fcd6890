// Schemes over a chain that need no search.
#include <algorithm>
#include <utility>

#include "memest/plan/schedule.hpp"
#include "plan/schedule/chain_writer.hpp"

namespace memest {
namespace {

/// Stages [begin, end) of a chain that one checkpoint holds.
struct LayerGroup {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

std::vector<LayerGroup> groups_of(const StepTensors& step, const std::vector<ChainStage>& chain,
                                  std::size_t layers) {
  std::vector<LayerGroup> groups;
  std::size_t in_group = 0;
  for (std::uint32_t i = 0; i < chain.size(); ++i) {
    if (!chain[i].is_layer) continue;
    const auto instance_of = [&](std::uint32_t stage) {
      return step.ops[chain[stage].begin].instance;
    };
    const bool follows = i > 0 && chain[i - 1].is_layer;
    const bool same_layer = follows && instance_of(i) == instance_of(i - 1);
    if (follows && (same_layer || in_group < layers)) {
      groups.back().end = i + 1;
      if (!same_layer) ++in_group;
      continue;
    }
    groups.push_back({i, i + 1});
    in_group = 1;
  }
  return groups;
}

std::int64_t kept_bytes(const StepTensors& step, const LayerGroup& group,
                        const std::vector<ChainStage>& chain) {
  std::int64_t bytes = 0;
  for (const StepTensor& tensor : step.tensors) {
    const std::uint32_t made = tensor.makers.front();
    const bool inside = made >= chain[group.begin].begin && made < chain[group.end - 1].end;
    if (inside && !tensor.savers.empty()) bytes += tensor.bytes;
  }
  return bytes;
}

/// Whether a group runs again for each of its stages.
bool drops_again(const StepTensors& step, const std::vector<ChainStage>& chain,
                 const LayerGroup& group, Retention retention) {
  if (retention != Retention::cost_aware) return retention == Retention::memory_centric;
  // SuperNeurons' l_peak: what the largest stage keeps has to fit anyway.
  std::int64_t largest = 0;
  for (std::uint32_t i = 0; i < chain.size(); ++i) {
    largest = std::max(largest, kept_bytes(step, {i, i + 1}, chain));
  }
  return kept_bytes(step, group, chain) > largest;
}

}  // namespace

std::vector<Action> keep_all(const ScheduledStep& step) {
  const std::vector<ChainStage> whole = {
      {0, static_cast<std::uint32_t>(step.step.ops.size()), std::nullopt}};
  return ChainWriter(step.step, whole).write([](auto, auto) { return ChainChoice{}; });
}

std::vector<Action> checkpoint_groups(const ScheduledStep& step,
                                      const std::vector<ChainStage>& chain, std::size_t layers,
                                      Retention retention) {
  struct Planned {
    LayerGroup group;
    bool drops_again = false;
  };
  std::vector<Planned> by_stage(chain.size());
  for (const LayerGroup& group : groups_of(step.step, chain, layers)) {
    const bool drops = drops_again(step.step, chain, group, retention);
    for (std::uint32_t i = group.begin; i < group.end; ++i) by_stage[i] = {group, drops};
  }
  const auto choose = [&](std::uint32_t first, std::uint32_t last) {
    const Planned& planned = by_stage[first];
    if (last < planned.group.end) return ChainChoice{planned.drops_again ? last : 0};
    return ChainChoice{first == planned.group.begin ? planned.group.end : 0};
  };
  return ChainWriter(step.step, chain).write(choose);
}

std::vector<Action> keep_nothing(const ScheduledStep& step, const std::vector<ChainStage>& chain) {
  return ChainWriter(step.step, chain).write([](std::uint32_t, std::uint32_t last) {
    return ChainChoice{last};
  });
}

}  // namespace memest
