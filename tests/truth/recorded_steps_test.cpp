// The recorded steps of Megatron: read as records, refused by name where memest has not their
// parallelism, and their seconds. Nothing was fitted to them.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "memest/plan/estimate.hpp"
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

/// Expected over measured of the dense models' steps, less 1.
std::vector<double> errors_of_dense_steps() {
  const auto records = read_records(MEMEST_TRUTH_FOLDER "/simumax.records.jsonl");
  std::vector<double> errors;
  for (const Record& record : records.value()) {
    if (record.id.find("llama3") == std::string::npos) continue;
    const JobEstimate estimate = estimate_job(*record.job);
    const auto* time = std::get_if<TimeEstimate>(&estimate.time);
    if (time == nullptr) continue;
    errors.push_back(time->step / *record.measured.step - 1);
    UNSCOPED_INFO(record.id << ": " << 100 * errors.back() << " %");
  }
  return errors;
}

TEST_CASE("seconds of Megatron's recorded steps over tensor, pipeline and data parallelism") {
  std::vector<double> errors = errors_of_dense_steps();
  REQUIRE(errors.size() == 12);
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  CHECK(errors[6] <= 0.05);
  // Two miss: with four tensor ranks beside two data-parallel ones, 11 % over four micro-steps of
  // a 70B's layers, 8.3 % over 32 of an 8B.
  CHECK(errors[9] <= 0.08);
  CHECK(errors.back() <= 0.12);
}

}  // namespace
}  // namespace memest
