// Operators of a training loop, one by one: SimuMax's tables of Megatron's kernels on A100 PCIe.
// What they make up, tests/truth/simumax.records.jsonl.gz has as whole steps.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "memest/calibrate/fit_profile.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/samples.hpp"
#include "memest/time/kernel_law.hpp"

namespace memest {
namespace {

/// What a class of operators may be off, on average and summed, and one of them alone.
struct Lines {
  double mean = 0;
  double worst = 0;
};

std::vector<Sample> rows_of(const char* table) {
  const auto read = read_samples(std::string(MEMEST_TIMING_FOLDER) + "/" + table);
  REQUIRE(read.ok());
  std::vector<Sample> rows = read.value().samples();
  for (Sample& row : rows) row.load = Load::sustained;
  return rows;
}

std::string class_of(const Sample& row) {
  if (const auto* product = std::get_if<MatmulShape>(&row.shape)) {
    return (product->batch > 1 ? "grouped " : "product, ") + std::string(name_of(product->pass));
  }
  return "attention, " + std::string(name_of(std::get<AttentionShape>(row.shape).pass));
}

struct Errors {
  double rows = 0;
  double absolute = 0;
  double predicted = 0;
  double measured = 0;
  double worst = 0;

  void add(double seconds, double expected) {
    ++rows;
    absolute += std::abs(expected / seconds - 1);
    predicted += expected;
    measured += seconds;
    if (std::abs(expected / seconds - 1) > std::abs(worst)) worst = expected / seconds - 1;
  }
};

using ByClass = std::map<std::string, Errors>;

/// Predicts `tested` by laws fitted to `fitted`.
void hold(const std::vector<Sample>& fitted, const std::vector<Sample>& tested, ByClass& errors) {
  const GpuSpec gpu = find_gpu("a100-pcie-80gb").value();
  const ProfileFit fit = fit_profile(gpu, fitted);
  for (const Sample& row : tested) {
    const auto expected = predict(fit.profile, gpu, row.shape, row.load);
    REQUIRE(expected);
    errors[class_of(row)].add(row.seconds.value(), expected->value());
  }
}

std::vector<Sample> every_fourth(const std::vector<Sample>& rows, std::size_t fold, bool of_it) {
  std::vector<Sample> part;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if ((i % 4 == fold) == of_it) part.push_back(rows[i]);
  }
  return part;
}

void check(const ByClass& errors, const Lines& lines) {
  for (const auto& [name, error] : errors) {
    INFO(name << ": " << error.rows << " rows, " << error.absolute / error.rows << " mean, "
              << error.predicted / error.measured - 1 << " bias, " << error.worst << " worst");
    CHECK(error.absolute / error.rows <= lines.mean);
    CHECK(std::abs(error.predicted / error.measured - 1) <= lines.mean);
    CHECK(std::abs(error.worst) <= lines.worst);
  }
}

constexpr std::array kTables = {"simumax_gemm_a100_pcie.csv.gz",
                                "simumax_attention_a100_pcie.csv.gz"};

TEST_CASE("each class of a training loop's operators by laws fitted to them", "[calibrate]") {
  ByClass errors;
  for (const char* table : kTables) hold(rows_of(table), rows_of(table), errors);
  CHECK(errors.size() == 8);
  check(errors, {.mean = 0.08, .worst = 0.27});
}

TEST_CASE("and each by laws that have not seen it", "[calibrate]") {
  ByClass errors;
  for (const char* table : kTables) {
    const std::vector<Sample> rows = rows_of(table);
    for (std::size_t fold = 0; fold < 4; ++fold) {
      hold(every_fourth(rows, fold, false), every_fourth(rows, fold, true), errors);
    }
  }
  check(errors, {.mean = 0.10, .worst = 0.30});
}

}  // namespace
}  // namespace memest
