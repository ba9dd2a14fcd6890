// Random sequences: whatever is asked for in whatever order, blocks never overlap, segments are
// covered without a gap, and every statistic is what a count of the snapshot gives.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "memest/memory/caching_allocator.hpp"

namespace memest {
namespace {

using namespace literals;

struct Held {
  BlockId block = BlockId::none;
  bool awaited = false;
};

/// The statistics, counted from the blocks.
AllocatorStatistics recount(const std::vector<SegmentView>& segments) {
  AllocatorStatistics counted;
  for (const SegmentView& segment : segments) {
    counted.reserved.current += segment.range.size;
    counted.segments += segment.expandable ? 0 : 1;
    for (const BlockView& block : segment.blocks) {
      counted.requested.current += block.requested;
      if (block.state == BlockState::allocated) counted.allocated.current += block.size;
      if (block.state != BlockState::free) {
        counted.active.current += block.size;
        ++counted.active_blocks;
      } else if (segment.blocks.size() > 1 && !segment.expandable) {
        counted.inactive_split.current += block.size;
        ++counted.inactive_split_blocks;
      }
    }
  }
  return counted;
}

void check_statistics(const AllocatorStatistics& kept, const AllocatorStatistics& counted) {
  CHECK(kept.allocated.current == counted.allocated.current);
  CHECK(kept.reserved.current == counted.reserved.current);
  CHECK(kept.requested.current == counted.requested.current);
  CHECK(kept.active.current == counted.active.current);
  CHECK(kept.inactive_split.current == counted.inactive_split.current);
  CHECK(kept.active_blocks == counted.active_blocks);
  CHECK(kept.inactive_split_blocks == counted.inactive_split_blocks);
  CHECK(kept.segments == counted.segments);
  for (const Gauge& gauge :
       {kept.allocated, kept.reserved, kept.requested, kept.active, kept.inactive_split}) {
    CHECK(gauge.peak >= gauge.current);
    CHECK(gauge.current >= 0_B);
  }
}

void check_layout(const std::vector<SegmentView>& segments) {
  Address end = 0;
  for (const SegmentView& segment : segments) {
    REQUIRE(segment.range.address >= end);
    end = segment.range.address;
    bool last_was_free = false;
    for (const BlockView& block : segment.blocks) {
      REQUIRE(block.address == end);
      REQUIRE(block.size > 0_B);
      REQUIRE(block.size.value() % 512 == 0);
      REQUIRE(block.requested <= block.size);
      const bool is_free = block.state == BlockState::free;
      REQUIRE_FALSE((is_free && last_was_free));  // neighbours that are free have joined
      last_was_free = is_free;
      end += block.size.value();
    }
    REQUIRE(end == segment.range.address + segment.range.size.value());
  }
}

AllocatorSettings settings_of(bool expandable, std::optional<Bytes> max_split,
                              std::int64_t divisions, std::optional<double> threshold) {
  AllocatorSettings settings;
  settings.expandable_segments = expandable;
  settings.max_split_size = max_split;
  settings.roundup_power2_divisions.fill(divisions);
  settings.garbage_collection_threshold = threshold;
  return settings;
}

std::vector<AllocatorSettings> all_settings() {
  return {settings_of(false, {}, 0, {}),     settings_of(true, {}, 0, {}),
          settings_of(false, 24_MiB, 0, {}), settings_of(false, {}, 8, {}),
          settings_of(false, {}, 0, 0.4),    settings_of(false, 40_MiB, 0, 0.7),
          settings_of(true, 64_MiB, 8, 0.9)};
}

class Drive {
 public:
  Drive(const AllocatorSettings& settings, std::optional<Bytes> limit, std::uint32_t seed)
      : device_(2_GiB), allocator_(settings, limit, device_), random_(seed) {}

  void step() {
    const auto choice = random_() % 100;
    if (choice < 48 || held_.empty()) {
      allocate();
    } else if (choice < 97) {
      give_back();
    } else if (choice < 99) {
      allocator_.reset_peaks();
    } else {
      allocator_.empty_cache();
    }
  }

  void check() const {
    const std::vector<SegmentView> segments = allocator_.snapshot();
    check_layout(segments);
    check_statistics(allocator_.statistics(), recount(segments));
    CHECK(device_.total() - device_.available() == allocator_.statistics().reserved.current);
  }

  void finish() {
    for (const Held& held : held_) allocator_.free(held.block);
    allocator_.empty_cache();
    CHECK(allocator_.statistics().reserved.current == 0_B);
    CHECK(allocator_.snapshot().empty());
    CHECK(device_.available() == device_.total());
  }

 private:
  void allocate() {
    const std::uint64_t power = std::uint64_t{1} << (random_() % 27);
    const auto size = static_cast<std::int64_t>(power + random_() % 100'000);
    const int stream = static_cast<int>(random_() % 3);
    const std::int64_t failures = allocator_.statistics().out_of_memory;
    const std::optional<BlockId> block = allocator_.allocate(Bytes(size), stream);
    REQUIRE(allocator_.statistics().out_of_memory == failures + (block ? 0 : 1));
    if (!block) {
      for (std::size_t half = held_.size() / 2; half > 0; --half) give_back();
      return;
    }
    REQUIRE(allocator_.size_of(*block) >= Bytes(size));
    held_.push_back({*block, false});
  }

  void give_back() {
    std::swap(held_[random_() % held_.size()], held_.back());
    Held& held = held_.back();
    if (!held.awaited && random_() % 8 == 0) {
      allocator_.free_when_done(held.block);
      held.awaited = true;
      return;
    }
    allocator_.free(held.block);
    held_.pop_back();
  }

  PredictedDevice device_;
  CachingAllocator allocator_;
  std::mt19937 random_;
  std::vector<Held> held_;
};

}  // namespace

TEST_CASE("random sequences keep every statistic what a recount gives", "[allocator]") {
  std::uint32_t seed = 0;
  for (const AllocatorSettings& settings : all_settings()) {
    for (const std::optional<Bytes> limit :
         {std::optional<Bytes>(), std::optional(300_MiB), std::optional(Bytes(999'999'999))}) {
      INFO("seed " << ++seed);
      Drive drive(settings, limit, seed);
      for (int steps = 0; steps < 2000; ++steps) {
        drive.step();
        if (steps % 20 == 0) drive.check();
      }
      drive.finish();
    }
  }
}

TEST_CASE("a pool of very many free blocks stays in order", "[allocator]") {
  PredictedDevice device(64_GiB);
  CachingAllocator allocator({}, {}, device);
  std::vector<BlockId> blocks;
  for (int i = 0; i < 4000; ++i) {
    blocks.push_back(*allocator.allocate(Bytes(512 * (1 + i % 37)), 0));
  }
  for (std::size_t i = 0; i < blocks.size(); i += 2) allocator.free(blocks[i]);
  CHECK(allocator.statistics().inactive_split_blocks > 1900);  // some join a segment's rest
  check_layout(allocator.snapshot());
  const Bytes reserved = allocator.statistics().reserved.current;
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    blocks[i] = *allocator.allocate(Bytes(512 * (1 + static_cast<int>(i) % 37)), 0);
  }
  CHECK(allocator.statistics().reserved.current == reserved);  // every hole is filled again
  for (const BlockId block : blocks) allocator.free(block);
  allocator.empty_cache();
  CHECK(allocator.statistics().reserved.current == 0_B);
}

}  // namespace memest
