// The answer of `memest timeline` for a recorded run: memory over its requests, phase by phase, the
// peak and who holds it.
#pragma once

#include <string>

#include "memest/memory/recorded/recorded_course.hpp"
#include "memest/report/replay_report.hpp"
#include "memest/report/report.hpp"

namespace memest {

/// The page draws from `run` and `course`, which must outlive it.
Report report_timeline(const PlayedRun& run, const RecordedCourse& course,
                       const Question& question);

/// RFC 4180 CSV, a row a request or free, as far as memory lasts.
std::string events_csv(const PlayedRun& run, const RecordedCourse& course);

}  // namespace memest
