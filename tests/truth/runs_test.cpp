// PyTorch's own memory snapshots of a training beside what is predicted of it.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <variant>

#include "memest/memory/recorded_peaks.hpp"
#include "memest/memory/timeline_difference.hpp"
#include "memest/plan/step_memory.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/reader/read_run.hpp"
#include "memest/reader/read_trace.hpp"

namespace memest {
namespace {

const std::string kRuns = MEMEST_TRUTH_FOLDER "/runs/";

AllocatorTrace trace_of(const std::string& name) {
  return std::get<AllocatorTrace>(*find_run(kRuns + name).value());
}

StepMemory predicted() {
  const Checked<Job> job = read_job(ReadRequest{{kRuns + "run.yaml"}});
  REQUIRE(job.ok());
  return std::get<StepMemory>(step_memory_of(job.value()));
}

}  // namespace

// torch.cuda.max_memory_allocated() and max_memory_reserved() of the same processes.
TEST_CASE("a snapshot's peaks are those that PyTorch counted", "[runs]") {
  const RecordedPeaks equal = peaks_of(trace_of("equal.pickle.gz"));
  CHECK(equal.source == PeakSource::replay);
  CHECK(equal.allocated == Bytes(79'490'048));
  CHECK(equal.reserved == Bytes(81'788'928));
  const RecordedPeaks kept = peaks_of(trace_of("kept.pickle.gz"));
  CHECK(kept.source == PeakSource::replay);
  CHECK(kept.allocated == Bytes(85'490'688));
  CHECK(kept.reserved == Bytes(102'760'448));
  const RecordedPeaks late = peaks_of(trace_of("late.pickle.gz"));
  CHECK(late.source == PeakSource::sum);
  CHECK(late.allocated <= Bytes(79'490'048));
  CHECK(late.reserved == Bytes(81'788'928));
}

TEST_CASE("a trace with markers has its own statistics", "[runs]") {
  const AllocatorTrace trace =
      read_trace(std::string(MEMEST_TRUTH_FOLDER "/steps/accumulated.trace.gz")).value();
  CHECK(peaks_of(trace).source == PeakSource::statistics);
}

TEST_CASE("every allocation of a run is the predicted one, and what it keeps beside is found",
          "[runs]") {
  const StepMemory memory = predicted();
  const AllocationMatch equal = match_allocations(memory.timeline, trace_of("equal.pickle.gz"));
  CHECK(equal.matched == 394);
  CHECK(equal.unmatched.empty());
  CHECK(equal.predicted_after + equal.recorded_after == 0);
  const AllocatorTrace trace = trace_of("kept.pickle.gz");
  const AllocationMatch kept = match_allocations(memory.timeline, trace);
  CHECK(kept.matched == 394);
  REQUIRE(kept.unmatched.size() == 2);
  for (const UnmatchedAllocation& row : kept.unmatched) {
    CHECK(row.predicted == kNoStorage);
    CHECK(trace.place_of(row.recorded) == "train.py:24 train");
  }
  const AllocationMatch late = match_allocations(memory.timeline, trace_of("late.pickle.gz"));
  CHECK(late.predicted_before == 14);
  CHECK(late.matched == 380);
  CHECK(late.unmatched.empty());
}

}  // namespace memest
