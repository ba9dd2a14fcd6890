// What is said of recorded runs in the very memory that they reserved.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <variant>

#include "memest/plan/estimate.hpp"
#include "memest/reader/record.hpp"

namespace memest {
namespace {

TEST_CASE("no recorded run of compiled layers is refused the memory that it reserved") {
  const auto records = read_records(MEMEST_TRUTH_FOLDER "/compiled.records.jsonl.gz");
  REQUIRE(records.ok());
  int runs = 0;
  int near = 0;
  for (const Record& record : records.value()) {
    if (!record.job || !record.measured.reserved_peak) continue;
    Job job = *record.job;
    job.hardware.memory = record.measured.reserved_peak;
    const JobEstimate estimate = estimate_job(job);
    const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
    if (memory == nullptr || memory->replayed() == nullptr) continue;
    INFO(record.id);
    CHECK(memory->verdict != Verdict::does_not_fit);
    near += memory->replayed()->step.replay.out_of_memory ? 1 : 0;
    ++runs;
  }
  CHECK(runs == 132);
  CHECK(near == 11);  // those end in the replay
}

}  // namespace
}  // namespace memest
