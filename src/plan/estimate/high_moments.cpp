#include "plan/estimate/high_moments.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>

namespace memest {
namespace {

/// The phase, what makes the storage, and the block or the tensor that it makes.
using MomentKind = std::tuple<Phase, Origin, std::uint32_t>;

MomentKind kind_of(const Timeline& timeline, const Label& label) {
  switch (label.origin) {
    case Origin::forward:
    case Origin::recompute:
    case Origin::backward:
      return {label.phase, label.origin, timeline.places[label.place].block};
    case Origin::parameter:
    case Origin::buffer:
      return {label.phase, label.origin, 0};
    case Origin::unit:
    case Origin::loop:
      break;
  }
  return {label.phase, label.origin, label.tensor};
}

struct Height {
  Bytes allocated;
  std::uint32_t event = 0;
};

}  // namespace

std::vector<HighMoment> high_moments(const StepMemory& step, const StepReplay& replay) {
  const Timeline& timeline = step.timeline;
  std::map<MomentKind, Height> highest;
  Bytes allocated;
  for (std::uint32_t i = 0; i < timeline.events.size(); ++i) {
    const Event event = timeline.events[i];
    const Bytes block = replay.blocks[event.storage];
    if (event.kind == EventKind::free) {
      allocated -= block;
      continue;
    }
    allocated += block;
    Height& kind = highest[kind_of(timeline, timeline.storages[event.storage].label)];
    if (allocated > kind.allocated) kind = {allocated, i};
  }
  std::vector<Height> heights;
  for (const auto& [kind, height] : highest) heights.push_back(height);
  std::sort(heights.begin(), heights.end(), [](const Height& left, const Height& right) {
    return left.allocated == right.allocated ? left.event < right.event
                                             : left.allocated > right.allocated;
  });
  std::vector<HighMoment> moments;
  for (const Height& height : heights) {
    moments.push_back({moment_of_event(step, height.event), height.allocated});
  }
  return moments;
}

}  // namespace memest
