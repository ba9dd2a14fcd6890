#include "plan/estimate/high_moments.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

/// The block, or the tensor of the loop or of a unit, that a storage is.
std::size_t made_by(const Timeline& timeline, const Label& label) {
  switch (label.origin) {
    case Origin::forward:
    case Origin::recompute:
    case Origin::unpacked:
    case Origin::backward:
      return timeline.places[label.place].block;
    case Origin::parameter:
    case Origin::buffer:
      return 0;
    case Origin::unit:
    case Origin::loop:
      break;
  }
  return label.tensor;
}

struct Height {
  Bytes allocated;
  std::uint32_t event = 0;
};

/// The highest moment of every kind: a phase, what makes the storage, and its block or tensor.
class Heights {
 public:
  Heights(const Timeline& timeline, const Graph& graph)
      : timeline_(timeline),
        width_(std::max(graph.blocks.size(), kLoopTensors)),
        heights_(kPhases * kOrigins * width_) {}

  void reach(const Label& label, const Height& height) {
    const auto phase = static_cast<std::size_t>(label.phase);
    const auto origin = static_cast<std::size_t>(label.origin);
    const std::size_t tensor = made_by(timeline_, label);
    expect(tensor < width_, "what makes a storage is a block or a tensor that has a place");
    Height& kind = heights_[(phase * kOrigins + origin) * width_ + tensor];
    if (height.allocated > kind.allocated) kind = height;
  }

  /// The highest first.
  std::vector<Height> take() && {
    std::erase_if(heights_, [](const Height& height) { return height.allocated == Bytes(); });
    std::sort(heights_.begin(), heights_.end(), [](const Height& left, const Height& right) {
      return left.allocated == right.allocated ? left.event < right.event
                                               : left.allocated > right.allocated;
    });
    return std::move(heights_);
  }

 private:
  static constexpr std::size_t kPhases = static_cast<std::size_t>(Phase::zero_grad) + 1;
  static constexpr std::size_t kOrigins = static_cast<std::size_t>(Origin::loop) + 1;
  /// More than there are of units; generator_state is the last.
  static constexpr std::size_t kLoopTensors =
      static_cast<std::size_t>(LoopTensor::generator_state) + 1;

  const Timeline& timeline_;
  std::size_t width_;
  std::vector<Height> heights_;
};

}  // namespace

std::vector<HighMoment> high_moments(const StepMemory& step, const StepReplay& replay) {
  const Timeline& timeline = step.timeline;
  Heights heights(timeline, step.graph);
  Bytes allocated;
  for (std::uint32_t i = 0; i < timeline.events.size(); ++i) {
    const Event event = timeline.events[i];
    const Bytes block = replay.blocks[event.storage];
    // A maximum stands behind an allocation: frees only lower what is held.
    if (event.kind == EventKind::free) {
      allocated -= block;
      continue;
    }
    allocated += block;
    heights.reach(timeline.storages[event.storage].label, {allocated, i});
  }
  std::vector<HighMoment> moments;
  for (const Height& height : std::move(heights).take()) {
    moments.push_back({moment_of_event(step, height.event), height.allocated});
  }
  return moments;
}

}  // namespace memest
