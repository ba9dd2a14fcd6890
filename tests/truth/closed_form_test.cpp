// The closed form held to recorded runs: how far allocated peaks lie from it, and that the margins
// of memory/margin.cpp are the quantiles that they claim to be. `truth_test "[table]"` prints every
// residual and the quantiles by group: run it to write the margins anew when records are added.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <variant>

#include "memest/graph/lower.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/reader/read_job.hpp"
#include "records.hpp"

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
  const auto allocated = record.number("allocated_peak_bytes");
  const auto reserved = record.number("reserved_peak_bytes");
  if (!allocated || !reserved || json_member(record.measured, "outcome") != "\"ok\"") {
    return std::nullopt;
  }
  const auto source =
      std::make_shared<const SourceText>(SourceText{record.id + ".json", record.spec});
  const Checked<Job> job = read_job(source);
  if (!job.ok() || !job.value().training) return std::nullopt;
  const TrainingSpec& training = *job.value().training;
  const int capability = capability_of(job.value().hardware.gpu).value;
  const auto lowered = lower(job.value().model, policy_of(training, capability));
  const auto* graph = std::get_if<Graph>(&lowered);
  if (graph == nullptr) return std::nullopt;
  const Ledger ledger = write_ledger(*graph, job.value());
  const MemoryEstimate estimate = estimate_memory(ledger, ledger.bindings);
  const double closed_form = estimate.allocated().as_double();
  return Residual{.id = record.id,
                  .recomputes = !std::holds_alternative<NoRecompute>(training.recompute),
                  .margin = ledger.margin,
                  .allocated = static_cast<double>(*allocated) / closed_form - 1,
                  .reserved = static_cast<double>(*reserved) / closed_form - 1,
                  .instant = ledger.instants[estimate.peak].name};
}

const std::vector<Residual>& residuals() {
  static const std::vector<Residual> kResiduals = [] {
    std::vector<Residual> result;
    for (const char* file : {"transformers.records.jsonl", "nanogpt.records.jsonl"}) {
      for (const Record& record : read_records(file)) {
        if (auto residual = residual_of(record)) result.push_back(*std::move(residual));
      }
    }
    return result;
  }();
  return kResiduals;
}

/// The `share` quantile, linear between neighbours.
double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (at - std::floor(at));
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
