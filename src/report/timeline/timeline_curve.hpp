// The curve of a timeline for a terminal.
#pragma once

#include "memest/report/page.hpp"
#include "memest/report/timeline_files.hpp"

namespace memest {

/// Allocated bytes filled, reserved ones above them dotted, steps and phases below, the peak
/// marked. Across go the events, not the time. `run` must outlive the figure.
Figure curve_of(const TimelineRun& run);

}  // namespace memest
