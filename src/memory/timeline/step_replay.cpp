#include "memest/memory/step_replay.hpp"

#include <algorithm>

namespace memest {
namespace {

class StepReplayer {
 public:
  StepReplayer(const Timeline& timeline, const AllocatorSettings& settings,
               const ReplayDevice& device)
      : timeline_(timeline),
        device_(device.total, device.available),
        allocator_(settings, device.limit, device_),
        blocks_(timeline.storages.size(), BlockId::none) {
    replay_.blocks.resize(timeline.storages.size());
  }

  StepReplay run() {
    std::uint32_t at = 0;
    for (const Span& span : timeline_.spans) {
      if (!run_events(at, span.begin)) break;
      span_peak_ = allocated();
      const bool runs = run_events(span.begin, span.end);
      end_phase(span);
      at = span.end;
      if (!runs) break;
    }
    if (!replay_.out_of_memory) {
      run_events(at, static_cast<std::uint32_t>(timeline_.events.size()));
    }
    replay_.statistics = allocator_.statistics();
    describe_peak();
    return std::move(replay_);
  }

 private:
  [[nodiscard]] Bytes allocated() const { return allocator_.statistics().allocated.current; }

  /// False where an allocation fails.
  bool run_events(std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t i = begin; i < end; ++i) {
      const Event event = timeline_.events[i];
      if (timeline_.emptied_before == i) allocator_.empty_cache();
      if (event.kind == EventKind::free) {
        allocator_.free(blocks_[event.storage]);
        continue;
      }
      const Storage& storage = timeline_.storages[event.storage];
      const Bytes requested(storage.bytes);
      const std::optional<BlockId> block =
          allocator_.allocate(requested, static_cast<int>(storage.stream));
      if (!block) {
        fail(i, requested);
        return false;
      }
      blocks_[event.storage] = *block;
      replay_.blocks[event.storage] = allocator_.size_of(*block);
      const Bytes now = allocated();
      span_peak_ = std::max(span_peak_, now);
      if (now > replay_.peak.allocated) {
        replay_.peak.allocated = now;
        replay_.peak.reserved = allocator_.statistics().reserved.current;
        replay_.peak.event = i;
      }
    }
    return true;
  }

  void end_phase(const Span& span) {
    const auto known = std::find_if(
        replay_.phases.rbegin(), replay_.phases.rend(),
        [&](const PhaseMemory& one) { return one.phase == span.phase && one.step == span.step; });
    const Bytes reserved = allocator_.statistics().reserved.current;
    if (known == replay_.phases.rend()) {
      replay_.phases.push_back({span.phase, span.step, span_peak_, allocated(), reserved});
      return;
    }
    known->peak = std::max(known->peak, span_peak_);
    known->end = allocated();
    known->reserved = reserved;
  }

  void fail(std::uint32_t event, Bytes requested) {
    const AllocatorStatistics& now = allocator_.statistics();
    OutOfMemory out{event, requested, now.allocated.current, now.reserved.current, {}, {}};
    out.free_in_segments = out.reserved - out.allocated;
    for (const SegmentView& segment : allocator_.snapshot()) {
      for (const BlockView& block : segment.blocks) {
        if (block.state == BlockState::free)
          out.largest_free = std::max(out.largest_free, block.size);
      }
    }
    replay_.out_of_memory = out;
  }

  void describe_peak() {
    PeakMoment& peak = replay_.peak;
    if (timeline_.events.empty()) return;
    std::vector<bool> alive(timeline_.storages.size(), false);
    for (std::uint32_t i = 0; i <= peak.event; ++i) {
      alive[timeline_.events[i].storage] = timeline_.events[i].kind == EventKind::allocate;
    }
    for (StorageId id = 0; id < alive.size(); ++id) {
      if (!alive[id]) continue;
      peak.alive.push_back({id, replay_.blocks[id]});
      peak.by_holding[static_cast<std::size_t>(timeline_.storages[id].label.holding)] +=
          replay_.blocks[id];
    }
    std::stable_sort(peak.alive.begin(), peak.alive.end(),
                     [](const AliveStorage& left, const AliveStorage& right) {
                       return left.block > right.block;
                     });
  }

  const Timeline& timeline_;
  PredictedDevice device_;
  CachingAllocator allocator_;
  std::vector<BlockId> blocks_;
  Bytes span_peak_;
  StepReplay replay_;
};

}  // namespace

StepReplay replay_steps(const Timeline& timeline, const AllocatorSettings& settings,
                        const ReplayDevice& device) {
  return StepReplayer(timeline, settings, device).run();
}

}  // namespace memest
