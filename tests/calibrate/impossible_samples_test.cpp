#include "memest/calibrate/impossible_samples.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <vector>

#include "memest/reader/catalog.hpp"

namespace memest {
namespace {

/// A square product of bf16 that reaches `share` of the peak of A100.
Sample product_at(double share, std::int64_t line) {
  constexpr double kPeak = 312e12;
  constexpr std::int64_t kSize = 4096;
  const double flops = 2.0 * kSize * kSize * kSize;
  return {.shape = MatmulShape{.m = kSize, .n = kSize, .k = kSize},
          .seconds = Seconds(flops / (kPeak * share)),
          .gpu = "a100",
          .source = "",
          .license = "",
          .file = "rows.csv",
          .line = line};
}

TEST_CASE("a product faster than the GPU's peak is passed over, with its line", "[calibrate]") {
  const GpuSpec gpu = find_gpu("a100-sxm-80gb").value();
  std::vector<Sample> samples = {product_at(0.8, 2), product_at(50, 3), product_at(1.2, 4)};
  const Diagnostics warnings = drop_impossible(gpu, samples);
  CHECK(samples.size() == 2);  // a clock above the datasheet's is no mistake
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].severity == Severity::warning);
  CHECK(warnings[0].message ==
        "rows.csv:3: this time would take 50 times the peak of A100 SXM4 80GB; the row is passed "
        "over");
}

TEST_CASE("attention counts the half of the scores that it computes", "[calibrate]") {
  const GpuSpec gpu = find_gpu("a100-sxm-80gb").value();
  AttentionShape shape;
  shape.heads = shape.kv_heads = 32;
  shape.seq_len = 8192;
  shape.head_dim = shape.value_head_dim = 128;
  Sample sample = product_at(1, 7);
  sample.seconds = Seconds(3e-3);  // 1.17 times the peak where every score were computed twice
  sample.shape = shape;
  std::vector<Sample> samples = {sample};
  CHECK(drop_impossible(gpu, samples).empty());
  samples[0].seconds = Seconds(1e-3);
  CHECK(drop_impossible(gpu, samples).size() == 1);
  CHECK(samples.empty());
}

TEST_CASE("of many such rows the first are named and the others counted", "[calibrate]") {
  const GpuSpec gpu = find_gpu("a100-sxm-80gb").value();
  std::vector<Sample> samples;
  for (std::int64_t line = 2; line < 40; ++line) samples.push_back(product_at(3, line));
  const Diagnostics warnings = drop_impossible(gpu, samples);
  CHECK(samples.empty());
  REQUIRE(warnings.size() == 11);
  CHECK(warnings.back().message ==
        "28 more rows beyond the peak of A100 SXM4 80GB are passed over");
}

}  // namespace
}  // namespace memest
