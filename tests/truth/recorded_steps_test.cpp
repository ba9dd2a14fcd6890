// The recorded steps of Megatron: read as records, and refused by name as long as memest has not
// its parallelism.
#include <catch2/catch_test_macros.hpp>

#include "memest/reader/record.hpp"

namespace memest {
namespace {

TEST_CASE("recorded steps of Megatron have seconds and peaks, and a job or the reason for none") {
  const auto records = read_records(MEMEST_TRUTH_FOLDER "/simumax.records.jsonl");
  REQUIRE(records.ok());
  CHECK(records.value().size() == 15);
  for (const Record& record : records.value()) {
    INFO(record.id);
    CHECK(record.measured.step.has_value());
    CHECK(record.measured.allocated_peak.has_value());
    if (!record.job) CHECK(record.refusal == "expert parallelism is not available yet");
  }
}

}  // namespace
}  // namespace memest
