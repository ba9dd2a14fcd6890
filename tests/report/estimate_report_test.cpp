#include "memest/report/estimate_report.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>

#include "example_estimate.hpp"
#include "memest/report/display.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;

const Question kQuestion{"tiny.yaml", "1.2.3"};

TEST_CASE(
    "the text of an estimate says what it is about, its sum, its verdict and what to ask next") {
  const std::string text =
      text_of(report_estimate(example_job(), example_estimate(), kQuestion).page, {});
  CHECK(text.substr(0, text.find('\n')) ==
        "tiny · 1.07 B parameters · mixed · adamw · 1024 tokens × 8 sequences · transformers");
  CHECK_THAT(text, ContainsSubstring("closed form, −"));
  CHECK_THAT(text, ContainsSubstring("21,474,836,480"));  // 20 GiB allocated
  CHECK_THAT(text, ContainsSubstring("12·Φ"));
  CHECK_THAT(text, ContainsSubstring("▸ optimizer step"));
  CHECK_THAT(text, ContainsSubstring("Fits: at most 21.50 GiB of the 24.00 GiB of card-24gb"));
  CHECK_THAT(text, ContainsSubstring("memest explain tiny.yaml"));
  CHECK_THAT(text, ContainsSubstring("datasheet"));
}

TEST_CASE("no verdict 'fits' where the estimate is too close to call") {
  JobEstimate estimate = example_estimate();
  std::get<MemoryAnswer>(estimate.memory).verdict = Verdict::too_close_to_call;
  const std::string text = text_of(report_estimate(example_job(), estimate, kQuestion).page, {});
  CHECK_THAT(text, ContainsSubstring("Too close to call:"));
  CHECK_THAT(text, !ContainsSubstring("Fits:"));
}

TEST_CASE("what is not available is a sentence, and null in JSON, never zero") {
  JobEstimate estimate = example_estimate();
  estimate.memory = Unavailable{"there is no graph of ResNet yet"};
  estimate.time = Unavailable{"there is no graph of ResNet yet"};
  const Report report = report_estimate(example_job(), estimate, kQuestion);
  CHECK_THAT(text_of(report.page, {}),
             ContainsSubstring("Not available: there is no graph of ResNet yet"));
  CHECK_THAT(report.json, ContainsSubstring("\"memory\": null"));
  CHECK_THAT(report.json,
             ContainsSubstring("\"memory_unavailable\": \"there is no graph of ResNet yet\""));
}

TEST_CASE("what a step waits for its data loader is said in samples, seconds and workers") {
  const auto text_with = [](std::int64_t workers, double wait, std::optional<std::int64_t> enough) {
    JobEstimate estimate = example_estimate();
    DataLoading loading;
    loading.workers = workers;
    loading.sample_seconds = Seconds(0.004);
    std::get<TimeEstimate>(estimate.time).loading = InputPipeline{.loading = loading,
                                                                  .supply = 250,
                                                                  .demand = 1234.5,
                                                                  .utilisation = 0.25,
                                                                  .wait = Seconds(wait),
                                                                  .enough = enough};
    RenderOptions wide;
    wide.columns = 300;
    return text_of(report_estimate(example_job(), estimate, kQuestion).page, wide);
  };
  CHECK_THAT(
      text_with(0, 0.006, 5),
      ContainsSubstring("\nIts data loader has no workers: the rank's own process makes 250 "
                        "samples/s for a GPU whose step asks for 1,230. The GPU waits 6.00 "
                        "ms a step and is at work 25 % of the time. 5 workers are enough.\n"));
  CHECK_THAT(
      text_with(1, 0, 1),
      ContainsSubstring("\nIts data loader's worker makes 250 samples/s for a GPU whose step "
                        "asks for 1,230. The GPU never waits. 1 worker is enough.\n"));
  CHECK_THAT(
      text_with(12, 2, std::nullopt),
      ContainsSubstring("\nIts data loader's 12 workers make 250 samples/s for a GPU whose "
                        "step asks for 1,230. The GPU waits 2.00 s a step and is at work 25 % "
                        "of the time. 10,000 workers would not be enough.\n"));
}

TEST_CASE("FLOPs beyond 2^64 are null with a sentence") {
  JobEstimate estimate = example_estimate();
  auto& flops = std::get<FlopsEstimate>(estimate.flops);
  flops.forward = flops.forward * 10'000'000;
  const std::string json = report_estimate(example_job(), estimate, kQuestion).json;
  CHECK_THAT(json, ContainsSubstring("\"forward\": null"));
  CHECK_THAT(json, ContainsSubstring("\"forward_unavailable\""));
  CHECK_THAT(json, ContainsSubstring("\"backward\": 2000000000000000"));
}

TEST_CASE("every line of the text fits, with and without UTF-8") {
  for (const bool unicode : {true, false}) {
    RenderOptions options;
    options.unicode = unicode;
    std::istringstream lines(
        text_of(report_estimate(example_job(), example_estimate(), kQuestion).page, options));
    for (std::string line; std::getline(lines, line);) {
      CHECK(display_width(line) <= kTextColumns);
      if (!unicode) {
        CHECK(line == to_ascii(line));
        CHECK(line.find('?') == std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace memest
