// The answer of `memest timeline`: the curve, memory phase by phase, the peak and what is alive in
// it; and, against a recorded run, the first event that is not the predicted one.
#pragma once

#include <optional>
#include <string>

#include "memest/memory/timeline_difference.hpp"
#include "memest/report/report.hpp"
#include "memest/report/timeline_files.hpp"

namespace memest {

/// A record that the timeline was held to.
struct ComparedTrace {
  std::string file;
  std::size_t events = 0;  ///< allocations and frees of the record
  std::optional<TimelineDifference> difference;
};

/// `records` stays empty: the rows of a timeline are its events (events_csv). The page draws from
/// `run`, which must outlive it.
Report report_timeline(const TimelineRun& run, const std::optional<ComparedTrace>& compared,
                       const Question& question);

}  // namespace memest
