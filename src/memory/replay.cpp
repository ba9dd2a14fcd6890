#include "memest/memory/replay.hpp"

#include <cstddef>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/units/text.hpp"
#include "memory/allocator/traced_device.hpp"

namespace memest {
namespace {

std::optional<Bytes> limit_of(const AllocatorTrace& trace) {
  if (!trace.capacity) return {};
  return memory_fraction_limit(*trace.capacity, trace.device_memory);
}

class Replay {
 public:
  Replay(const AllocatorTrace& trace, SegmentAddresses addresses)
      : trace_(trace),
        device_(trace, addresses),
        allocator_(trace.settings, limit_of(trace), device_),
        blocks_(static_cast<std::size_t>(trace.allocations), BlockId::none) {}

  ReplayResult run() {
    for (std::size_t i = 0; i < trace_.events.size() && !result_.difference; ++i) {
      // Segments are the allocator's answer to a request: the device compares them, nothing asks
      // for them.
      if (is_segment_event(trace_.events[i].kind)) continue;
      device_.begin(i);
      act(trace_.events[i]);
      if (device_.difference()) result_.difference = device_.difference();
    }
    if (!result_.difference) {
      device_.finish();
      result_.difference = device_.difference();
    }
    result_.segment_events = static_cast<std::int64_t>(device_.compared());
    result_.end = allocator_.statistics();
    return std::move(result_);
  }

 private:
  BlockId& block_of(const TraceEvent& event) {
    return blocks_[static_cast<std::size_t>(event.number)];
  }

  void act(const TraceEvent& event) {
    switch (event.kind) {
      case TraceEventKind::allocate:
      case TraceEventKind::out_of_memory:
        return allocate(event);
      case TraceEventKind::free:
        ++result_.requests;
        return allocator_.free(block_of(event));
      case TraceEventKind::free_when_done:
        // Counted when its end comes, as a free.
        return allocator_.free_when_done(block_of(event));
      case TraceEventKind::empty_cache:
        return allocator_.empty_cache();
      case TraceEventKind::reset_peaks:
        return allocator_.reset_peaks();
      case TraceEventKind::marker:
        return compare(trace_.markers[static_cast<std::size_t>(event.number)]);
      case TraceEventKind::owner:
      case TraceEventKind::segment_obtained:
      case TraceEventKind::segment_returned:
      case TraceEventKind::mapped:
      case TraceEventKind::unmapped:
        return;
    }
    unreachable("a kind of event beyond the enum");
  }

  void allocate(const TraceEvent& event) {
    const bool succeeds = event.kind == TraceEventKind::allocate;
    const auto outcome = [](bool success) { return success ? "a block" : "out of memory"; };
    ++result_.requests;
    const std::optional<BlockId> block = allocator_.allocate(event.size, event.stream);
    if (block.has_value() != succeeds) {
      result_.difference = {event.line, "allocation of " + grouped(event.size.value()) + " B",
                            outcome(block.has_value()), outcome(succeeds)};
      return;
    }
    // A trace writes the segments of a request before its block: all of them must have been seen.
    device_.settle();
    if (succeeds) block_of(event) = *block;
  }

  void compare(const TraceMarker& marker) {
    result_.markers.push_back(traced(allocator_.statistics()));
    for (std::size_t i = 0; i < kTracedStatistics && !result_.difference; ++i) {
      if (!marker.statistics[i]) continue;
      ++result_.statistics;
      const std::int64_t replayed = result_.markers.back()[i];
      if (replayed == *marker.statistics[i]) continue;
      result_.difference = {
          marker.line,
          "marker '" + marker.name + "', " + std::string(name_of(static_cast<TracedStatistic>(i))),
          grouped(replayed), grouped(*marker.statistics[i])};
    }
  }

  const AllocatorTrace& trace_;
  TracedDevice device_;
  CachingAllocator allocator_;
  std::vector<BlockId> blocks_;  // by allocation
  ReplayResult result_;
};

// As torch.cuda.memory_stats tells them: a block is allocated until free() is called and active
// until no stream uses it any more; requested is what was asked for before it was rounded up.
std::int64_t value_of(const AllocatorStatistics& statistics, TracedStatistic which) {
  switch (which) {
    case TracedStatistic::allocated_bytes:
      return statistics.allocated.current.value();
    case TracedStatistic::reserved_bytes:
      return statistics.reserved.current.value();
    case TracedStatistic::active_bytes:
      return statistics.active.current.value();
    case TracedStatistic::inactive_split_bytes:
      return statistics.inactive_split.current.value();
    case TracedStatistic::requested_bytes:
      return statistics.requested.current.value();
    case TracedStatistic::allocated_peak:
      return statistics.allocated.peak.value();
    case TracedStatistic::reserved_peak:
      return statistics.reserved.peak.value();
    case TracedStatistic::segments:
      return statistics.segments;
    case TracedStatistic::active:
      return statistics.active_blocks;
    case TracedStatistic::inactive_split:
      return statistics.inactive_split_blocks;
    case TracedStatistic::retries:
      return statistics.retries;
    case TracedStatistic::ooms:
      return statistics.out_of_memory;
  }
  unreachable("a statistic beyond the enum");
}

}  // namespace

std::array<std::int64_t, kTracedStatistics> traced(const AllocatorStatistics& statistics) {
  std::array<std::int64_t, kTracedStatistics> values{};
  for (std::size_t i = 0; i < kTracedStatistics; ++i) {
    values[i] = value_of(statistics, static_cast<TracedStatistic>(i));
  }
  return values;
}

ReplayResult replay(const AllocatorTrace& trace, SegmentAddresses addresses) {
  return Replay(trace, addresses).run();
}

}  // namespace memest
