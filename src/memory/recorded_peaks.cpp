#include "memest/memory/recorded_peaks.hpp"

#include <algorithm>
#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/memory/replay.hpp"

namespace memest {
namespace {

/// kMinBlockSize of c10/core/CachingDeviceAllocator.h.
constexpr std::int64_t kBlock = 512;

std::optional<std::int64_t> highest(const AllocatorTrace& trace, TracedStatistic which) {
  std::optional<std::int64_t> most;
  for (const TraceMarker& marker : trace.markers) {
    const auto& value = marker.statistics[static_cast<std::size_t>(which)];
    if (value) most = std::max(most.value_or(0), *value);
  }
  return most;
}

/// A running sum and its peak.
struct Level {
  Bytes now;
  Bytes peak;

  void add(Bytes bytes) {
    now += bytes;
    peak = std::max(peak, now);
  }
};

RecordedPeaks summed(const AllocatorTrace& trace) {
  Level allocated;
  Level reserved;
  allocated.add(trace.earlier.allocated);
  reserved.add(trace.earlier.reserved);
  bool has_segments = trace.earlier.reserved > Bytes();
  std::vector<Bytes> blocks(static_cast<std::size_t>(trace.allocations));
  for (const TraceEvent& event : trace.events) {
    const Bytes size = event.size;
    if (event.kind == TraceEventKind::allocate) {
      const Bytes block((size.value() + kBlock - 1) / kBlock * kBlock);
      blocks[static_cast<std::size_t>(event.number)] = block;
      allocated.add(block);
    } else if (event.kind == TraceEventKind::free || event.kind == TraceEventKind::free_when_done) {
      // Allocated falls as the program frees, whatever other streams still read.
      Bytes& block = blocks[static_cast<std::size_t>(event.number)];
      allocated.add(Bytes() - block);
      block = Bytes();
    } else if (is_segment_event(event.kind)) {
      const bool more =
          event.kind == TraceEventKind::segment_obtained || event.kind == TraceEventKind::mapped;
      reserved.add(more ? size : Bytes() - size);
      has_segments = true;
    }
  }
  RecordedPeaks peaks{allocated.peak, std::nullopt, PeakSource::sum};
  if (has_segments) peaks.reserved = reserved.peak;
  return peaks;
}

}  // namespace

std::string_view name_of(PeakSource source) {
  switch (source) {
    case PeakSource::statistics:
      return "statistics";
    case PeakSource::replay:
      return "replay";
    case PeakSource::sum:
      return "sum";
  }
  unreachable("a source of peaks beyond the enum");
}

RecordedPeaks peaks_of(const AllocatorTrace& trace) {
  const RecordedPeaks sum = summed(trace);
  if (const auto allocated = highest(trace, TracedStatistic::allocated_peak)) {
    const auto reserved = highest(trace, TracedStatistic::reserved_peak);
    return {Bytes(*allocated), reserved ? std::optional(Bytes(*reserved)) : sum.reserved,
            PeakSource::statistics};
  }
  if (trace.earlier.count > 0 || !sum.reserved) return sum;
  const ReplayResult replayed = replay(trace);
  if (replayed.difference) return sum;
  return {replayed.end.allocated.peak, replayed.end.reserved.peak, PeakSource::replay};
}

}  // namespace memest
