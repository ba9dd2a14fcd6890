// A GPU that nobody measured, by the laws of a sibling: every pair of siblings that were measured
// both, each predicted from the other. timing/README.md says where the tables are from.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "memest/calibrate/fit_profile.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/samples.hpp"
#include "memest/spec/gpu/sibling.hpp"
#include "memest/time/gpu_laws.hpp"
#include "memest/time/kernel_law.hpp"

namespace memest {
namespace {

/// `lender`'s profile in place of `borrower`'s own, on the rows of `table`.
struct Pair {
  const char* borrower;
  const char* lender;
  const char* table;
};
constexpr std::array kPairs = {
    Pair{"a100-sxm-80gb", "a100-pcie-80gb", "gemm_a100_sxm.csv.gz"},
    Pair{"a100-pcie-80gb", "a100-sxm-80gb", "simumax_gemm_a100_pcie.csv.gz"},
    Pair{"a100-pcie-80gb", "a100-pcie-40gb", "neusight_fp32_ops.csv.gz"},
    Pair{"a100-pcie-40gb", "a100-pcie-80gb", "neusight_fp32_ops.csv.gz"},
};

GpuSpec gpu_named(const std::string& name) { return find_gpu(name).value(); }

/// Long enough to be of a training step, and of what laws are fitted to.
bool is_of_training(const Sample& sample) {
  constexpr double kShort = 50e-6;
  if (const auto* product = std::get_if<MatmulShape>(&sample.shape)) {
    return std::min({product->m, product->n, product->k}) >= 512 && sample.seconds.value() > kShort;
  }
  return std::holds_alternative<StreamShape>(sample.shape) && sample.seconds.value() > kShort;
}

std::vector<Sample> rows_of(const std::string& table, const std::string& slug) {
  const auto read = read_samples(std::string(MEMEST_TIMING_FOLDER) + "/" + table);
  REQUIRE(read.ok());
  std::map<std::string, bool> is_of_gpu;
  std::vector<Sample> rows;
  for (const Sample& sample : read.value().samples()) {
    const auto [known, is_new] = is_of_gpu.try_emplace(sample.gpu, false);
    if (is_new) known->second = gpu_named(sample.gpu).slug == slug;
    if (known->second && is_of_training(sample)) rows.push_back(sample);
  }
  return rows;
}

struct Transfer {
  double error = 0;   ///< sum of |predicted / measured − 1|
  double inside = 0;  ///< rows within the price's interval
};

Transfer predict_rows(const GpuSpec& gpu, const std::vector<Sample>& rows) {
  const GpuLaws laws(gpu);
  Transfer transfer;
  for (const Sample& row : rows) {
    const CallPrice price = laws.price(row.shape);
    const double measured = row.seconds.value();
    transfer.error += std::abs(price.expected / measured - 1);
    transfer.inside += price.fast <= measured && measured <= price.slow ? 1 : 0;
  }
  return transfer;
}

TEST_CASE("a sibling's laws are nearer than the datasheet's rule, and their interval holds",
          "[calibrate]") {
  double rows = 0;
  double datasheet_error = 0;
  Transfer siblings;
  for (const Pair& pair : kPairs) {
    const std::vector<Sample> samples = rows_of(pair.table, pair.borrower);
    const auto count = static_cast<double>(samples.size());
    GpuSpec gpu = gpu_named(pair.borrower);
    gpu.profile = nullptr;
    gpu.siblings = {sibling_of(gpu, gpu_named(pair.lender))};
    const Transfer by_sibling = predict_rows(gpu, samples);
    // What was published of this GPU is not to count either.
    gpu.siblings.clear();
    gpu.slug = "";
    gpu.target = {};
    const Transfer by_datasheet = predict_rows(gpu, samples);
    INFO(pair.borrower << " from " << pair.lender << ", " << count << " rows: "
                       << by_sibling.error / count << " against " << by_datasheet.error / count);
    CHECK(by_sibling.error / count < 0.13);
    rows += count;
    datasheet_error += by_datasheet.error;
    siblings.error += by_sibling.error;
    siblings.inside += by_sibling.inside;
  }
  CHECK(rows > 2000);
  CHECK(siblings.error < datasheet_error);
  INFO(siblings.inside / rows);
  CHECK(siblings.inside > 0.8 * rows);
}

/// Of 16-bit products over 50 µs on `gpu` by the profile of `lender`, mean absolute.
double product_error(const char* gpu, const char* lender, const char* table) {
  const GpuSpec borrower = gpu_named(gpu);
  const GpuSpec measured = gpu_named(lender);
  double error = 0;
  double count = 0;
  for (const Sample& row : rows_of(table, gpu)) {
    const auto* product = std::get_if<MatmulShape>(&row.shape);
    if (product == nullptr || product->operand != DType::bf16) continue;
    if (std::min({product->m, product->n, product->k}) < 1024) continue;
    const auto predicted = predict(*measured.profile, borrower, row.shape, row.load);
    REQUIRE(predicted);
    error += std::abs(*predicted / row.seconds - 1);
    ++count;
  }
  return error / count;
}

TEST_CASE("laws of another architecture are further off", "[calibrate]") {
  constexpr const char* kA100 = "a100-sxm-80gb";
  constexpr const char* kH100 = "h100-sxm-80gb";
  CHECK(product_error(kH100, kA100, "gemm_h100_sxm.csv.gz") < 0.10);
  CHECK(product_error(kA100, kH100, "gemm_a100_sxm.csv.gz") < 0.10);
  CHECK(product_error(kH100, "l40s", "gemm_h100_sxm.csv.gz") > 0.3);
  CHECK(product_error(kA100, "l40s", "gemm_a100_sxm.csv.gz") > 0.3);
  CHECK(product_error("l40s", kH100, "gemm_l40s.csv.gz") > 0.2);
}

TEST_CASE("beyond its samples a law's interval widens, and holds what it claims", "[calibrate]") {
  constexpr double kLongest = 1e-3;
  GpuSpec gpu = gpu_named("a100-sxm-80gb");
  std::vector<Sample> shorter;
  std::vector<Sample> longer;
  for (const Sample& row : rows_of("gemm_a100_sxm.csv.gz", gpu.slug)) {
    if (row.seconds.value() < kLongest) shorter.push_back(row);
    if (row.seconds.value() > 4 * kLongest) longer.push_back(row);
  }
  gpu.profile = std::make_shared<const GpuProfile>(fit_profile(gpu, shorter).profile);
  CHECK(longer.size() > 300);
  CHECK(predict_rows(gpu, longer).inside > 0.8 * static_cast<double>(longer.size()));
  const CallPrice within = GpuLaws(gpu).price(shorter.front().shape);
  CHECK(within.slow == within.fast);
}

TEST_CASE("GPUs of another architecture, or with less power for a FLOP/s, are no siblings",
          "[calibrate]") {
  const auto distance = [](const char* gpu, const char* other) {
    return distance_between(gpu_named(gpu), gpu_named(other));
  };
  CHECK(distance("h200-sxm-141gb", "h100-sxm-80gb"));
  CHECK(distance("a100-pcie-80gb", "a100-sxm-80gb"));
  CHECK_FALSE(distance("h100-sxm-80gb", "a100-sxm-80gb"));
  CHECK_FALSE(distance("l4", "l40s"));
  CHECK_FALSE(distance("h20", "h100-sxm-80gb"));
}

}  // namespace
}  // namespace memest
