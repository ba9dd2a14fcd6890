#include "memest/memory/step_replay.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "memory/allocator/block.hpp"
#include "memory/timeline/awaited_blocks.hpp"
#include "memory/timeline/repeated_parts.hpp"

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
/// called the segments stay. Blocks alive and not freed by such a part stay where they are; where
/// the rest lies where it lay, so does what is free, whose neighbours are always joined. The pools
/// of small and of large blocks share nothing but the device.
struct Standing {
  using Places = std::vector<std::pair<Address, Bytes>>;
  std::int64_t calls_for_small = 0;  ///< of the device
  std::int64_t calls_for_large = 0;
  std::int64_t retries = 0;
  Places small;  ///< of what the part frees and has not made
  Places large;

  bool operator==(const Standing&) const = default;
  [[nodiscard]] bool has_large_of(const Standing& other) const {
    return calls_for_large == other.calls_for_large && retries == other.retries &&
           large == other.large;
  }
};

/// The blocks to follow in a part whose large blocks will be where the part before had its.
enum class FollowedBlocks : std::uint8_t {
  all,
  small  ///< no more than the others
};

class StepReplayer {
 public:
  StepReplayer(const Timeline& timeline, const AllocatorSettings& settings,
               const ReplayDevice& device, FollowedBlocks least)
      : timeline_(timeline),
        parts_(timeline),
        collects_garbage_(settings.garbage_collection_threshold.has_value()),
        least_(least),
        device_(device.total, device.available),
        allocator_(settings, device.limit, device_),
        awaited_(timeline, allocator_),
        blocks_(timeline.storages.size(), BlockId::none) {
    replay_.blocks.resize(timeline.storages.size());
  }

  /// None where memory was short while large blocks were passed over, which would have been given
  /// back.
  std::optional<StepReplay> run() {
    for (std::size_t i = 0; i < parts_.size() && !replay_.out_of_memory;) {
      if (const std::size_t skipped = skip_from(i); skipped > 0) {
        i += skipped;
      } else if (follow_ == FollowedBlocks::all) {
        run_part(parts_[i++]);
      } else if (!run_small_of(parts_[i++])) {
        return std::nullopt;
      }
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

  /// The part's large blocks take no part. They are what they were in the part before it, and small
  /// ones are always as large as their requests: so is all that is allocated, at every event. False
  /// where memory is short.
  bool run_small_of(const TimelinePart& part) {
    const std::int64_t retries = allocator_.statistics().retries;
    const StorageId earlier = part.end_storage - part.first_storage;
    std::uint32_t at = part.begin;
    for (std::size_t i = part.first_span; i < part.end_span; ++i) {
      const Span& span = timeline_.spans[i];
      if (!run_small_events(at, span.end, earlier)) return false;
      last_of(span)->reserved = allocator_.statistics().reserved.current;
      at = span.end;
    }
    return run_small_events(at, part.end, earlier) && allocator_.statistics().retries == retries;
  }

  bool run_small_events(std::uint32_t begin, std::uint32_t end, StorageId earlier) {
    for (std::uint32_t i = begin; i < end; ++i) {
      const Event event = timeline_.events[i];
      const bool allocates = event.kind == EventKind::allocate;
      if (is_large(event.storage)) {
        if (allocates) take_block_of(event.storage, event.storage - earlier);
      } else if (!allocates) {
        allocator_.free(blocks_[event.storage]);
      } else if (!allocate(event.storage)) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool is_large(StorageId storage) const {
    return pool_kind_of(timeline_.storages[storage].bytes) == PoolKind::large;  // rounded or not
  }

  /// How many parts from `first` on need not run, because the allocator stands as it stood some
  /// equal parts ago: whole rounds of these leave it so. They pass no peak and end their phases as
  /// those have ended. Where it is none, `follow_` says how the first runs.
  std::size_t skip_from(std::size_t first) {
    follow_ = FollowedBlocks::all;
    if (!parts_.repeats(first)) standings_.clear();
    // The age of what lies free, by which garbage is collected, would go on.
    // A capture's awaited blocks are more with every part of it.
    if (timeline_.joined_before) return 0;
    if (collects_garbage_ || !(parts_.repeats(first) || parts_.repeats(first + 1))) return 0;
    Standing now = standing_before(first);
    if (!standings_.empty() && standings_.back().has_large_of(now)) follow_ = least_;
    const auto same = std::find(standings_.begin(), standings_.end(), now);
    if (same == standings_.end()) {
      standings_.push_back(std::move(now));
      return 0;
    }
    const auto round = static_cast<std::size_t>(standings_.end() - same);
    std::size_t skipped = 0;
    while (parts_.repeats(first + skipped)) ++skipped;
    skipped -= skipped % round;
    for (std::size_t i = first; i < first + skipped; ++i) repeat(parts_[i], round);
    standings_.erase(standings_.begin(), same);
    if (skipped > 0) return skipped;
    standings_.erase(standings_.begin());
    standings_.push_back(std::move(now));
    return 0;
  }

  [[nodiscard]] Standing standing_before(std::size_t part) const {
    Standing standing{device_.calls() - calls_for_large_,
                      calls_for_large_,
                      allocator_.statistics().retries,
                      {},
                      {}};
    for (const StorageId storage : parts_.freed_by(part)) {
      const BlockId block = blocks_[storage];
      (is_large(storage) ? standing.large : standing.small)
          .emplace_back(allocator_.address_of(block), allocator_.size_of(block));
    }
    return standing;
  }

  /// The part's storages take the blocks of those that the part `round` before it made.
  void repeat(const TimelinePart& part, std::size_t round) {
    const auto earlier = static_cast<StorageId>(round * (part.end_storage - part.first_storage));
    for (StorageId i = part.first_storage; i < part.end_storage; ++i) take_block_of(i, i - earlier);
  }

  void take_block_of(StorageId storage, StorageId earlier) {
    blocks_[storage] = blocks_[earlier];
    replay_.blocks[storage] = replay_.blocks[earlier];
  }

  /// False where it fails.
  bool allocate(StorageId id) {
    const Storage& storage = timeline_.storages[id];
    const std::int64_t calls = device_.calls();
    const std::optional<BlockId> block =
        allocator_.allocate(Bytes(storage.bytes), storage.stream.number());
    if (!block) return false;
    if (is_large(id)) calls_for_large_ += device_.calls() - calls;
    blocks_[id] = *block;
    replay_.blocks[id] = allocator_.size_of(*block);
    return true;
  }

  /// False where an allocation fails.
  bool run_events(std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t i = begin; i < end; ++i) {
      const Event event = timeline_.events[i];
      awaited_.come_to(i);
      if (timeline_.emptied_before == i) allocator_.empty_cache();
      if (event.kind == EventKind::free) {
        awaited_.free(event.storage, blocks_[event.storage]);
        continue;
      }
      if (!allocate(event.storage)) {
        fail(i, Bytes(timeline_.storages[event.storage].bytes));
        return false;
      }
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

  /// The phase of the span's step, as far as it has run.
  std::vector<PhaseMemory>::reverse_iterator last_of(const Span& span) {
    return std::find_if(
        replay_.phases.rbegin(), replay_.phases.rend(),
        [&](const PhaseMemory& one) { return one.phase == span.phase && one.step == span.step; });
  }

  void end_phase(const Span& span) {
    const auto known = last_of(span);
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
    std::vector<EventKind> last(timeline_.storages.size(), EventKind::free);
    for (std::uint32_t i = 0; i <= peak.event; ++i) {
      last[timeline_.events[i].storage] = timeline_.events[i].kind;
    }
    for (StorageId id = 0; id < last.size(); ++id) {
      if (last[id] == EventKind::free) continue;
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
  FollowedBlocks least_;
  FollowedBlocks follow_ = FollowedBlocks::all;  ///< of the part that runs next
  CountingDevice device_;
  std::int64_t calls_for_large_ = 0;
  CachingAllocator allocator_;
  AwaitedBlocks awaited_;
  std::vector<BlockId> blocks_;
  std::vector<Standing> standings_;  ///< before the last parts, all of them equal
  Bytes span_peak_;
  StepReplay replay_;
};

}  // namespace

StepReplay replay_steps(const Timeline& timeline, const AllocatorSettings& settings,
                        const ReplayDevice& device) {
  if (auto replay = StepReplayer(timeline, settings, device, FollowedBlocks::small).run()) {
    return *std::move(replay);
  }
  return *StepReplayer(timeline, settings, device, FollowedBlocks::all).run();
}

}  // namespace memest
