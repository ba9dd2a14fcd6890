// The use of a recorded run's memory at its peak, and why it ran out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memest/spec/allocator_trace.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// One place of the program, and the memory that it holds.
struct PlaceUse {
  std::string place;  ///< empty: no Python was running, as in autograd's thread
  std::int64_t allocations = 0;
  Bytes bytes;  ///< in blocks of 512 B
};

/// A moment of a recorded run.
struct RecordedMoment {
  /// The marker that comes next, which is the phase it is in: "step2.backward"; empty behind the
  /// last one.
  std::string phase;
  Bytes allocated;               ///< in blocks of 512 B; the allocator may have handed out more
  std::vector<PlaceUse> places;  ///< the largest first; of equals the first in the program
};

/// The marker that comes next, as a moment's phase.
std::string phase_of(const AllocatorTrace& trace, std::size_t event);

/// The first moment at which most was allocated.
RecordedMoment peak_moment(const AllocatorTrace& trace);
/// The moment behind an event.
RecordedMoment moment_behind(const AllocatorTrace& trace, std::size_t event);

/// A place that holds more behind every step.
struct PlaceGrowth {
  std::string place;
  Bytes a_step;  ///< by which it grew in the last step
};

/// Places that held more behind each of the last three optimizers than behind the one before, the
/// fastest first; none of a run with fewer than four, whose first steps make states and buffers.
std::vector<PlaceGrowth> growing_places(const AllocatorTrace& trace);

/// An allocation that failed.
struct RecordedFailure {
  std::string phase;
  std::string place;
  Bytes size;       ///< that was asked for, rounded
  Bytes allocated;  ///< at that moment
  Bytes reserved;
  /// Whether all that was asked for until then, and this, fits with expandable segments: then the
  /// memory was in pieces. Absent where the run had them.
  std::optional<bool> fits_expandable;
};

/// The last allocation that failed; nothing where all were granted.
std::optional<RecordedFailure> failure_of(const AllocatorTrace& trace);

}  // namespace memest
