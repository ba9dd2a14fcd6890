// Why profiles hold no table of residuals: it knows the program that measured, not the GPU.
// Some tables of timing/ have a second column of times, `seconds_alt`: the same shapes by another
// program on another machine.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "memest/reader/catalog.hpp"
#include "memest/reader/samples.hpp"
#include "memest/time/kernel_law.hpp"

namespace memest {
namespace {

struct Row {
  std::array<double, 3> sizes{};  ///< log m, log n, log k
  double predicted = 0;           ///< by the profile's law
  double measured = 0;
  double by_other = 0;  ///< by the other program; 0 where it has no such row
};

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  return cells;
}

/// bf16 products of training size.
std::vector<Row> rows_of(const char* file, const char* slug) {
  const auto table = read_samples(std::string(MEMEST_TIMING_FOLDER) + "/" + file);
  REQUIRE(table.ok());
  const GpuSpec gpu = find_gpu(slug).value();
  const std::vector<std::string> head = cells_of(table.value().head);
  const auto other =
      static_cast<std::size_t>(std::find(head.begin(), head.end(), "seconds_alt") - head.begin());
  std::vector<Row> rows;
  for (const SampleRow& row : table.value().rows) {
    if (!row.sample) continue;
    const auto* shape = std::get_if<MatmulShape>(&row.sample->shape);
    if (shape == nullptr || shape->operand != DType::bf16) continue;
    if (shape->m < 2048 || shape->n < 1024 || shape->k < 1024) continue;
    const std::string by_other = cells_of(row.line).at(other);
    rows.push_back({.sizes = {std::log(shape->m), std::log(shape->n), std::log(shape->k)},
                    .predicted = predict(*gpu.profile, gpu, *shape, Load::burst)->value(),
                    .measured = row.sample->seconds.value(),
                    .by_other = by_other.empty() ? 0 : std::strtod(by_other.c_str(), nullptr)});
  }
  return rows;
}

/// exp of the mean log(measured / predicted) of the nearest of `known`, by distance.
double correction(const Row& row, const std::vector<const Row*>& known) {
  constexpr std::size_t kNearest = 8;
  constexpr double kSoftening = 0.3;  // a third of a size's doubling
  std::vector<std::pair<double, const Row*>> near;
  for (const Row* other : known) {
    double squared = kSoftening * kSoftening;
    for (std::size_t i = 0; i < row.sizes.size(); ++i) {
      squared += (row.sizes[i] - other->sizes[i]) * (row.sizes[i] - other->sizes[i]);
    }
    near.emplace_back(squared, other);
  }
  std::partial_sort(near.begin(), near.begin() + kNearest, near.end());
  double sum = 0;
  double weights = 0;
  for (std::size_t i = 0; i < kNearest; ++i) {
    sum += std::log(near[i].second->measured / near[i].second->predicted) / near[i].first;
    weights += 1 / near[i].first;
  }
  return std::exp(sum / weights);
}

/// Mean absolute errors, of the law and with the table on top.
struct Errors {
  double law = 0;
  double table = 0;
  double rows = 0;

  void add(double predicted, double corrected, double measured) {
    law += std::abs(predicted / measured - 1);
    table += std::abs(corrected / measured - 1);
    ++rows;
  }
  [[nodiscard]] double gain() const { return table / law; }
};

struct Comparison {
  Errors same;
  Errors other;
};

/// Each row from the three quarters that it is not in.
Comparison compare(const std::vector<Row>& rows) {
  constexpr std::size_t kFolds = 4;
  Comparison result;
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<const Row*> known;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i % kFolds != fold) known.push_back(&rows[i]);
    }
    for (std::size_t i = fold; i < rows.size(); i += kFolds) {
      const Row& row = rows[i];
      const double corrected = row.predicted * correction(row, known);
      result.same.add(row.predicted, corrected, row.measured);
      if (row.by_other > 0) result.other.add(row.predicted, corrected, row.by_other);
    }
  }
  return result;
}

TEST_CASE("a table of residuals helps the program that it is of, and no other", "[calibrate]") {
  using File = std::pair<const char*, const char*>;
  for (const auto& [file, gpu] :
       {File{"gemm_a100_sxm.csv.gz", "a100-sxm-80gb"},
        File{"gemm_h100_sxm.csv.gz", "h100-sxm-80gb"}, File{"gemm_l40s.csv.gz", "l40s"}}) {
    const Comparison errors = compare(rows_of(file, gpu));
    INFO(gpu << ": same program " << errors.same.law / errors.same.rows << " to "
             << errors.same.table / errors.same.rows << ", other program "
             << errors.other.law / errors.other.rows << " to "
             << errors.other.table / errors.other.rows << " of " << errors.other.rows);
    CHECK(errors.same.gain() < 0.97);
    CHECK(errors.other.rows > 150);
    CHECK(errors.other.gain() > 0.97);
  }
}

}  // namespace
}  // namespace memest
