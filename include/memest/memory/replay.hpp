// A recorded trace, run through the allocator model and compared: statistics at every marker,
// segments as they come and go, and out of memory at the same event.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memest/memory/caching_allocator.hpp"
#include "memest/spec/allocator_trace.hpp"

namespace memest {

/// The statistics in the form that a marker has them, all of them.
std::array<std::int64_t, kTracedStatistics> traced(const AllocatorStatistics& statistics);

/// Where new segments lie. Best fit takes the lowest address of equals, so a replay takes the
/// trace's addresses. Predicted ones (AddressSpace) are moved to where the trace's first segment
/// is.
enum class SegmentAddresses : std::uint8_t { recorded, predicted };

/// The first event at which model and record part.
struct ReplayDifference {
  std::int32_t line = 0;
  std::string place;     ///< "marker 'backward', reserved_bytes", "segments", "allocation"
  std::string replayed;  ///< "1,048,576", "S 7f0000000000 20971520 0", "out of memory"
  std::string recorded;
};

/// Ends at the first difference: whatever comes after is its consequence.
struct ReplayResult {
  /// At each of the trace's markers, as far as it came.
  std::vector<std::array<std::int64_t, kTracedStatistics>> markers;
  std::int64_t requests = 0;        ///< allocations and frees
  std::int64_t segment_events = 0;  ///< of the trace's, compared
  std::int64_t statistics = 0;      ///< of the trace's, compared
  std::optional<ReplayDifference> difference;
  AllocatorStatistics end;
};

ReplayResult replay(const AllocatorTrace& trace,
                    SegmentAddresses addresses = SegmentAddresses::recorded);

}  // namespace memest
