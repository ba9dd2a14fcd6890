#include "memest/memory/step_replay.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "repeated_parts.hpp"

namespace memest {
namespace {

/// A predicted device that counts how often it is called.
class CountingDevice : public PredictedDevice {
 public:
  using PredictedDevice::PredictedDevice;

  std::optional<Address> allocate(Bytes size, int stream) override {
    ++calls_;
    return PredictedDevice::allocate(size, stream);
  }
  void release(const DeviceRange& segment) override {
    ++calls_;
    PredictedDevice::release(segment);
  }
  bool map(const DeviceRange& range) override {
    ++calls_;
    return PredictedDevice::map(range);
  }
  void unmap(const DeviceRange& range) override {
    ++calls_;
    PredictedDevice::unmap(range);
  }

  [[nodiscard]] std::int64_t calls() const { return calls_; }

 private:
  std::int64_t calls_ = 0;
};

/// The allocator before a part, as far as repeated parts can change it. Where the device was not
/// called the segments stay. What is alive and not freed by such a part stays in its place; where
/// the rest lies where it lay, so does what is free, whose neighbours are always joined.
struct Standing {
  std::int64_t device_calls = 0;
  std::int64_t retries = 0;
  std::vector<std::pair<Address, Bytes>> freed;  ///< of what the part frees and has not made

  bool operator==(const Standing&) const = default;
};

class StepReplayer {
 public:
  StepReplayer(const Timeline& timeline, const AllocatorSettings& settings,
               const ReplayDevice& device)
      : timeline_(timeline),
        parts_(timeline),
        collects_garbage_(settings.garbage_collection_threshold.has_value()),
        device_(device.total, device.available),
        allocator_(settings, device.limit, device_),
        blocks_(timeline.storages.size(), BlockId::none) {
    replay_.blocks.resize(timeline.storages.size());
  }

  StepReplay run() {
    for (std::size_t i = 0; i < parts_.size() && !replay_.out_of_memory;) {
      const std::size_t skipped = skip_from(i);
      if (skipped == 0) run_part(parts_[i++]);
      i += skipped;
    }
    replay_.statistics = allocator_.statistics();
    describe_peak();
    return std::move(replay_);
  }

 private:
  [[nodiscard]] Bytes allocated() const { return allocator_.statistics().allocated.current; }

  void run_part(const TimelinePart& part) {
    std::uint32_t at = part.begin;
    for (std::size_t i = part.first_span; i < part.end_span; ++i) {
      const Span& span = timeline_.spans[i];
      if (!run_events(at, span.begin)) return;
      span_peak_ = allocated();
      const bool runs = run_events(span.begin, span.end);
      end_phase(span);
      at = span.end;
      if (!runs) return;
    }
    run_events(at, part.end);
  }

  /// How many parts from `first` on need not run, because the allocator stands as it stood some
  /// equal parts ago: whole rounds of these leave it so. They pass no peak and end their phases as
  /// those have ended.
  std::size_t skip_from(std::size_t first) {
    if (!parts_.repeats(first)) standings_.clear();
    // The age of what lies free, by which garbage is collected, would go on.
    if (collects_garbage_ || !(parts_.repeats(first) || parts_.repeats(first + 1))) return 0;
    Standing now = standing_before(first);
    const auto same = std::find(standings_.begin(), standings_.end(), now);
    if (same == standings_.end()) {
      standings_.push_back(std::move(now));
      return 0;
    }
    const auto round = static_cast<std::size_t>(standings_.end() - same);
    standings_.clear();
    std::size_t skipped = 0;
    while (parts_.repeats(first + skipped)) ++skipped;
    skipped -= skipped % round;
    for (std::size_t i = first; i < first + skipped; ++i) repeat(parts_[i], round);
    return skipped;
  }

  [[nodiscard]] Standing standing_before(std::size_t part) const {
    Standing standing{device_.calls(), allocator_.statistics().retries, {}};
    for (const StorageId storage : parts_.freed_by(part)) {
      const BlockId block = blocks_[storage];
      standing.freed.emplace_back(allocator_.address_of(block), allocator_.size_of(block));
    }
    return standing;
  }

  /// The part's storages take the blocks of those that the part `round` before it made.
  void repeat(const TimelinePart& part, std::size_t round) {
    const auto earlier = static_cast<StorageId>(round * (part.end_storage - part.first_storage));
    for (StorageId i = part.first_storage; i < part.end_storage; ++i) {
      blocks_[i] = blocks_[i - earlier];
      replay_.blocks[i] = replay_.blocks[i - earlier];
    }
  }

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
  TimelineParts parts_;
  bool collects_garbage_;
  CountingDevice device_;
  CachingAllocator allocator_;
  std::vector<BlockId> blocks_;
  std::vector<Standing> standings_;  ///< before the last parts that ran, all of them equal
  Bytes span_peak_;
  StepReplay replay_;
};

}  // namespace

StepReplay replay_steps(const Timeline& timeline, const AllocatorSettings& settings,
                        const ReplayDevice& device) {
  return StepReplayer(timeline, settings, device).run();
}

}  // namespace memest
