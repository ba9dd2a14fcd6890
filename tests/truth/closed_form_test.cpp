// The closed form held to recorded runs: how far allocated peaks lie from it, and that the margins
// of memory/margin.cpp are the quantiles that they claim to be. `truth_test "[table]"` prints every
// residual and the quantiles by group: run it to write the margins anew when records are added.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <optional>
#include <string>
#include <tuple>
#include <variant>

#include "memest/graph/lower.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/plan/validation.hpp"
#include "memest/reader/record.hpp"

namespace memest {
namespace {

struct Residual {
  std::string id;
  bool recomputes = false;
  Margin margin;
  double allocated = 0;  ///< the recorded allocated peak over the closed form, less one
  double reserved = 0;   ///< the recorded reserved peak over the closed form, less one
  std::string instant;   ///< where the closed form sees the peak
};

/// None where the record ran out of memory, or has what memest refuses by name.
std::optional<Residual> residual_of(const Record& record) {
  const auto& [allocated, reserved] =
      std::tie(record.measured.allocated_peak, record.measured.reserved_peak);
  if (!allocated || !reserved || record.measured.outcome != RunOutcome::ok) return std::nullopt;
  if (!record.job || !record.job->training) return std::nullopt;
  const TrainingSpec& training = *record.job->training;
  const int capability = capability_of(record.job->hardware.gpu).value;
  const auto lowered = lower(record.job->model, policy_of(training, capability));
  const auto* graph = std::get_if<Graph>(&lowered);
  if (graph == nullptr) return std::nullopt;
  const Ledger ledger = write_ledger(*graph, *record.job);
  const MemoryEstimate estimate = estimate_memory(ledger, ledger.bindings);
  const double closed_form = estimate.allocated().as_double();
  return Residual{.id = record.id,
                  .recomputes = !std::holds_alternative<NoRecompute>(training.recompute),
                  .margin = ledger.margin,
                  .allocated = allocated->as_double() / closed_form - 1,
                  .reserved = reserved->as_double() / closed_form - 1,
                  .instant = ledger.instants[estimate.peak].name};
}

const std::vector<Residual>& residuals() {
  static const std::vector<Residual> kResiduals = [] {
    std::vector<Residual> result;
    for (const char* file : {"transformers.records.jsonl", "nanogpt.records.jsonl"}) {
      const auto records = read_records(std::string(MEMEST_TRUTH_FOLDER "/") + file);
      for (const Record& record : records.value()) {
        if (auto residual = residual_of(record)) result.push_back(*std::move(residual));
      }
    }
    return result;
  }();
  return kResiduals;
}

std::vector<Residual> group(bool recomputes) {
  std::vector<Residual> result;
  for (const Residual& residual : residuals()) {
    if (residual.recomputes == recomputes) result.push_back(residual);
  }
  return result;
}

std::vector<double> reserved_of(const std::vector<Residual>& group) {
  std::vector<double> result;
  for (const Residual& residual : group) result.push_back(residual.reserved);
  return result;
}

std::vector<double> distances() {
  std::vector<double> result;
  for (const Residual& residual : residuals()) result.push_back(std::abs(residual.allocated));
  return result;
}

TEST_CASE("the closed form is within a percent of nine allocated peaks in ten") {
  REQUIRE(residuals().size() > 100);
  CHECK(quantile(distances(), 0.5) < 0.002);
  CHECK(quantile(distances(), 0.9) < 0.01);
  for (const Residual& residual : residuals()) {
    INFO(residual.id);
    CHECK(std::abs(residual.allocated) < 0.035);
  }
}

TEST_CASE("the margins are what the records say") {
  for (const bool recomputes : {false, true}) {
    const std::vector<Residual> records = group(recomputes);
    REQUIRE(!records.empty());
    const Margin margin = records.front().margin;
    CHECK(margin.records == static_cast<int>(records.size()));
    for (const Residual& residual : records) {
      INFO(residual.id);
      CHECK(residual.allocated >= -margin.low);
    }
    CHECK(std::abs(quantile(reserved_of(records), 0.9) - margin.high) < 0.005);
  }
}

TEST_CASE("print the residuals", "[.][table]") {
  std::cout << std::fixed << std::setprecision(4);
  for (const Residual& residual : residuals()) {
    std::cout << residual.id << "  allocated " << residual.allocated << "  reserved "
              << residual.reserved << "  " << residual.instant << "\n";
  }
  std::cout << "distance of allocated: median " << quantile(distances(), 0.5)
            << ", 90th percentile " << quantile(distances(), 0.9) << "\n";
  for (const bool recomputes : {false, true}) {
    const std::vector<double> reserved = reserved_of(group(recomputes));
    std::cout << (recomputes ? "with" : "without") << " recompute, " << reserved.size()
              << " records: reserved median " << quantile(reserved, 0.5) << ", 90th percentile "
              << quantile(reserved, 0.9) << "\n";
  }
}

}  // namespace
}  // namespace memest
