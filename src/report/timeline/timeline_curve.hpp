// The curve of memory over events for a terminal.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "memest/memory/step_course.hpp"
#include "memest/report/page.hpp"
#include "memest/report/timeline_files.hpp"

namespace memest {

/// A phase over the events [begin, end).
struct CurvePhase {
  std::string name;             ///< "forward"
  std::int64_t step = 0;        ///< 0: before the first
  std::int64_t micro_step = 0;  ///< from 1 on; 0 outside micro-steps
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

struct DrawnCurve {
  std::span<const CoursePoint> points;  ///< must outlive the figure
  std::uint32_t peak = 0;               ///< the event behind which most is allocated
  Bytes allocated = {};                 ///< there
  std::vector<CurvePhase> phases = {};
  std::int64_t micro_steps = 1;  ///< of a step, of which fewer may be drawn
};

/// Allocated bytes filled, reserved ones above them dotted, steps and phases below, the peak
/// marked. Across go the events, not the time.
Figure curve_of(DrawnCurve drawn);
/// As above; `run` must outlive the figure.
Figure curve_of(const TimelineRun& run);

}  // namespace memest
