// Static memory plans of a timeline, as part of its answer.
#pragma once

#include "memest/report/page.hpp"
#include "memest/report/timeline_files.hpp"
#include "report/pages/json.hpp"

namespace memest {

/// Heights of the arenas beside what the allocator reserves.
Table packing_table(const TimelineRun& run);
/// Why there are several arenas; empty where there is one.
std::string packing_sentence(const TimelineRun& run);
Json packing_json(const TimelineRun& run);

}  // namespace memest
