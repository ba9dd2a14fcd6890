// A timeline as a browser's page draws it.
#pragma once

#include "memest/report/chart.hpp"
#include "memest/report/timeline_files.hpp"

namespace memest {

/// Every event as far as memory lasts, with the storage that it allocates or frees. `run` must
/// outlive the chart.
Chart course_chart(const TimelineRun& run);

}  // namespace memest
