// Recordings of one program at a few sizes become one for all sizes, or the event is named where
// they part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memest/memory/recorded_peaks.hpp"
#include "memest/spec/recorded/family.hpp"

namespace memest {

/// The points that are recorded: those that are fitted, and one that is held out.
struct RecordedPoints {
  std::vector<SizePoint> fitted;
  SizePoint held_out;
};

/// A star: the lowest values, from there each number alone through its values, and of several
/// numbers all at their highest. Held out is the point of their middle values. Each number has
/// three values or more.
RecordedPoints points_of(const std::vector<VariedSize>& varied);

/// The program at a point.
struct RecordedAt {
  SizePoint point;
  Recording recording;
};

/// Why there is no formula for every request.
enum class FamilyFault : std::uint8_t {
  other_event,    ///< the runs part: kind, stream, number, place or marker differ
  ran_out,        ///< a request failed, behind which a program does something else
  no_formula,     ///< no formula gives the size at all fitted points
  held_out_size,  ///< the formula gives another size at the point that was held out
  held_out_peaks  ///< the requests are equal, and the model of the allocator has other peaks
};

/// An event of the recording at one point; none where it has ended.
struct EventAt {
  SizePoint point;
  std::optional<TraceEvent> event;
  std::string name;  ///< the place of a request or a free, a marker's name
};

struct FamilyRefusal {
  FamilyFault fault = FamilyFault::other_event;
  std::string phase;  ///< of the event: "step2.backward"
  /// The first point's and the other's; of no_formula every fitted one's; of the held
  /// out faults its own.
  std::vector<EventAt> events;
  std::optional<SizeFormula> formula;  ///< of held_out_size
  RecordedPeaks recorded = {};         ///< of held_out_peaks
  RecordedPeaks played = {};
};

/// The peaks that were recorded at the point that was held out, which the formulas give.
struct HeldOut {
  std::int64_t requests = 0;
  /// Requests that grow in steps, of which the points do not tell where the next begins.
  std::int64_t within_steps = 0;
  Bytes most_below;  ///< the most by which one of these is less than its formula
  RecordedPeaks peaks;
};

struct FittedFamily {
  RecordedFamily family;
  HeldOut held_out;
};

/// Takes recordings at the points of points_of(), in that order, the one that is held out last.
/// Throws OverflowError where the numbers of a formula leave 128 bits.
std::variant<FittedFamily, FamilyRefusal> fit_family(const std::vector<VariedSize>& varied,
                                                     std::vector<RecordedAt> recorded);

}  // namespace memest
