// The answer of `memest diff` for two recorded runs: what the second takes more, and which lines of
// the program do.
#pragma once

#include <optional>
#include <string>

#include "memest/memory/recorded_peaks.hpp"
#include "memest/memory/recorded_use.hpp"
#include "memest/report/report.hpp"
#include "memest/spec/allocator_trace.hpp"
#include "memest/time/recorded_time.hpp"

namespace memest {

struct ComparedRun {
  std::string file;
  RecordedPeaks peaks;
  std::optional<Bytes> device_peak;  ///< the context in it
  RecordedMoment peak;
  bool ran_out = false;
  RecordedStepTime time;
};
/// `time` is on the GPU of the comparison.
ComparedRun compared_run(const Recording& recording, RecordedStepTime time);

struct RunsComparison {
  ComparedRun a;
  ComparedRun b;
  std::string gpu;         ///< on which steps have their time; empty: they have none
  bool every_row = false;  ///< what is equal is shown too
};

/// A place that one run alone has is held together with its function's in the other: an edit above
/// a line moves it.
Report report_diff(const RunsComparison& comparison, const Question& question);

/// Whether B runs out of memory where A does not.
bool fits_no_more(const RunsComparison& comparison);

}  // namespace memest
