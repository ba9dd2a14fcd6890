// What a selftest says: what failed, by how much, and the published rate beside the measured one.
#include "memest/report/gpus/selftest_report.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "memest/reader/catalog.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;

const StreamShape kSoftmax{.op = StreamOp::softmax, .rows = 32'768, .columns = 4'096};

SelftestAnswer answer() {
  SelftestAnswer result{.selftest = {},
                        .device = "NVIDIA H100 80GB HBM3",
                        .gpu = "h100-sxm-80gb",
                        .ceilings = find_ceilings("h100-sxm-80gb")};
  result.selftest.kernels = {{kSoftmax, {{"y", 0.001, 0.004}}}};
  result.selftest.ruler.emplace_back();
  result.selftest.ruler[0].asked = Seconds(2e-5);
  result.selftest.ruler[0].measured.median = Seconds(2.1e-5);
  RateVerdict rate;
  rate.shape = kSoftmax;
  rate.measured.median = Seconds(1e-4);
  rate.rate = 3012e9 / 2;
  rate.share_of_copy = 0.96;
  rate.target = 0.95;
  rate.share_of_datasheet = 0.45;
  rate.utilization = 0.45;
  result.selftest.rates = {rate};
  return result;
}

std::string text(const SelftestAnswer& of) { return text_of(report_selftest(of, {}).page, {}); }

TEST_CASE("a selftest that passed says so, beside the published rate and its source", "[report]") {
  const std::string page = text(answer());
  CHECK_THAT(page, ContainsSubstring("Passed."));
  CHECK_THAT(page, ContainsSubstring("against double precision: 1, of which 0 differ."));
  CHECK_THAT(page, ContainsSubstring("96 % (≥ 95 %)"));
  CHECK_THAT(page, ContainsSubstring("3.01 TB/s"));
  CHECK_THAT(page, ContainsSubstring("50 %"));
  CHECK_THAT(page, ContainsSubstring("Dao-AILab/quack"));
  const auto json = nlohmann::json::parse(report_selftest(answer(), {}).json);
  CHECK(json["passed"] == true);
  CHECK(json["rates"][0]["published"]["ratio"] == 0.5);
  CHECK(json["rates"][0]["target"] == 0.95);
}

TEST_CASE("a kernel that differs is listed with by how much", "[report]") {
  SelftestAnswer wrong = answer();
  wrong.selftest.kernels[0].checks[0].error = 0.5;
  const std::string page = text(wrong);
  CHECK_THAT(page, ContainsSubstring("Failed."));
  CHECK_THAT(page, ContainsSubstring("1, of which 1 differ."));
  CHECK_THAT(page, ContainsSubstring("softmax bf16 forward 32768 × 4096"));
  CHECK_THAT(page, ContainsSubstring("0.00400"));
}

TEST_CASE("an impossible rate is called a broken measurement", "[report]") {
  SelftestAnswer broken = answer();
  broken.selftest.rates[0].utilization = 1.1;
  CHECK_FALSE(broken.selftest.passed());
  CHECK_THAT(text(broken), ContainsSubstring("so the measurement is broken: softmax bf16"));
}

TEST_CASE("times that are not judged are shown without a verdict", "[report]") {
  SelftestAnswer host = answer();
  host.selftest.judges_times = false;
  host.selftest.ruler[0].measured.median = Seconds(1);
  const std::string page = text(host);
  CHECK_THAT(page, ContainsSubstring("Passed."));
  CHECK_THAT(page, ContainsSubstring("Times are shown and not judged"));
}

TEST_CASE("every ceiling is of a known GPU, has a source and a rate below its datasheet's",
          "[report]") {
  int count = 0;
  for (const GpuSpec& gpu : all_gpus()) {
    for (const Ceiling& ceiling : find_ceilings(gpu.slug)) {
      INFO(gpu.slug << ' ' << ceiling.kernel);
      ++count;
      CHECK(ceiling.rate > 0);
      CHECK_FALSE(ceiling.source.empty());
      CHECK_FALSE(ceiling.license.empty());
      if (ceiling.kernel == "matmul bf16") {
        CHECK(ceiling.rate < gpu.peak.at(DType::bf16).value.value());
      } else if (ceiling.kernel == "matmul fp8") {
        CHECK(ceiling.rate < gpu.peak.at(DType::fp8).value.value());
      } else {
        CHECK(ceiling.rate < gpu.memory_bandwidth->value.value());
      }
    }
  }
  CHECK(count == 62);
}

}  // namespace
}  // namespace memest
