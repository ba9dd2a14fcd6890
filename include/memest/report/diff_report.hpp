// The answer of `memest diff`: what two specs say differently and what that does to every number;
// or what is predicted of a spec beside what was measured of its run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "memest/memory/recorded_peaks.hpp"
#include "memest/memory/timeline_difference.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/plan/step_memory.hpp"
#include "memest/report/report.hpp"
#include "memest/spec/allocator_trace.hpp"
#include "memest/spec/gpu/usage_log.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// A key as a spec writes it.
struct PlacedKey {
  std::string key;    ///< "training.micro_batch"
  std::string value;  ///< "4"
  std::string place;  ///< "job.yaml:12", "--set"
};

/// One of two specs; job and estimate outlive it.
struct ComparedSpec {
  std::string name;  ///< "job.yaml", "HEAD~1:job.yaml"
  const Job& job;
  const JobEstimate& estimate;
  std::vector<PlacedKey> keys;
};

struct SpecComparison {
  ComparedSpec a;
  ComparedSpec b;
  bool every_row = false;  ///< numbers that are equal are shown too
};

Report report_diff(const SpecComparison& comparison, const Question& question);

/// Whether B needs more than there is where A does not.
bool fits_no_more(const SpecComparison& comparison);

/// A spec's predicted steps and the trace of a run; what they refer to outlives them.
struct TraceComparison {
  const Job& job;
  const StepMemory& memory;
  JobRank rank;
  const AllocatorTrace& trace;
  RecordedPeaks peaks;
  AllocationMatch match;
  /// The first event that differs, where the whole history was recorded.
  std::optional<TimelineDifference> first = {};
  bool every_row = false;  ///< all allocations that differ are shown
};

Report report_diff(const TraceComparison& comparison, const Question& question);

/// Whether the run's reserved peak (allocated, where no segments were recorded) lies in the
/// interval of the prediction.
bool holds(const TraceComparison& comparison);

/// A spec's estimate and a log of the memory in use.
struct UsageComparison {
  const Job& job;
  const JobEstimate& estimate;
  const MemoryAnswer& memory;  ///< of the estimate
  const UsageLog& log;
};

Report report_diff(const UsageComparison& comparison, const Question& question);

/// Whether the most that was in use of the fullest GPU lies in the interval of the prediction.
bool holds(const UsageComparison& comparison);

}  // namespace memest
