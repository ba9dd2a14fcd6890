// Recorded training steps against the estimate: the interval holds as many as it says.
//
// Rows: github.com/mosaicml/llm-foundry, scripts/train/benchmarking/README.md (commit 061f2c7), MPT
// models on one node of 8 GPUs, FSDP full shard, amp_bf16, flash attention, tokens a second and
// GPU.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>
#include <vector>

#include "memest/plan/estimate.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

struct Model {
  int hidden_size;
  int layers;
  int heads;
};
constexpr Model k125m{768, 12, 12};
constexpr Model k350m{1024, 24, 16};
constexpr Model k760m{1536, 24, 12};
constexpr Model k1b{2048, 24, 16};
constexpr Model k3b{2560, 32, 20};
constexpr Model k7b{4096, 32, 32};
constexpr Model k13b{5120, 40, 40};
constexpr Model k30b{7168, 48, 56};

struct RecordedStep {
  const char* gpu;
  Model model;
  int seq_len;
  int micro_batch;
  int gradient_accumulation;
  const char* recompute;
  double tokens_per_second_per_gpu;
};

constexpr const char* kH100 = "h100-sxm-80gb";
constexpr const char* kA100 = "a100-sxm-80gb";

constexpr std::array kRecordedSteps = {
    RecordedStep{kH100, k30b, 8192, 1, 21, "full", 1384},
    RecordedStep{kH100, k30b, 4096, 1, 21, "full", 1802},
    RecordedStep{kH100, k30b, 2048, 3, 21, "full", 2002},
    RecordedStep{kH100, k30b, 1024, 6, 21, "full", 2084},
    RecordedStep{kH100, k13b, 16384, 3, 3, "full", 2985},
    RecordedStep{kH100, k13b, 4096, 10, 3, "full", 4717},
    RecordedStep{kH100, k13b, 2048, 2, 1, "none", 4792},
    RecordedStep{kH100, k13b, 1024, 40, 3, "full", 5502},
    RecordedStep{kH100, k7b, 32768, 2, 2, "full", 3318},
    RecordedStep{kH100, k7b, 8192, 8, 2, "full", 6935},
    RecordedStep{kH100, k7b, 4096, 16, 2, "full", 8611},
    RecordedStep{kH100, k7b, 2048, 6, 1, "none", 10643},
    RecordedStep{kH100, k7b, 1024, 64, 2, "full", 10203},
    RecordedStep{kH100, k3b, 32768, 3, 6, "full", 5873},
    RecordedStep{kH100, k3b, 16384, 1, 6, "none", 11152},
    RecordedStep{kH100, k3b, 8192, 3, 6, "none", 16578},
    RecordedStep{kH100, k3b, 4096, 5, 6, "none", 20964},
    RecordedStep{kH100, k3b, 1024, 20, 6, "none", 27046},
    RecordedStep{kH100, k3b, 512, 40, 6, "none", 27965},
    RecordedStep{kH100, k1b, 16384, 2, 4, "none", 19649},
    RecordedStep{kH100, k1b, 8192, 3, 4, "none", 29157},
    RecordedStep{kH100, k1b, 4096, 7, 4, "none", 38535},
    RecordedStep{kH100, k1b, 2048, 14, 1, "none", 45455},
    RecordedStep{kH100, k1b, 1024, 18, 4, "none", 48910},
    RecordedStep{kH100, k1b, 512, 56, 4, "none", 52275},
    RecordedStep{kH100, k760m, 8192, 6, 2, "none", 41825},
    RecordedStep{kH100, k760m, 4096, 12, 2, "none", 55459},
    RecordedStep{kH100, k760m, 2048, 24, 2, "none", 63147},
    RecordedStep{kH100, k760m, 1024, 48, 2, "none", 78581},
    RecordedStep{kH100, k760m, 512, 96, 2, "none", 83749},
    RecordedStep{kA100, k30b, 8192, 1, 21, "full", 574},
    RecordedStep{kA100, k30b, 4096, 1, 21, "full", 814},
    RecordedStep{kA100, k30b, 2048, 3, 21, "full", 916},
    RecordedStep{kA100, k30b, 1024, 6, 21, "full", 946},
    RecordedStep{kA100, k30b, 512, 12, 21, "full", 967},
    RecordedStep{kA100, k13b, 32768, 1, 3, "full", 1016},
    RecordedStep{kA100, k13b, 16384, 3, 3, "full", 1431},
    RecordedStep{kA100, k13b, 8192, 5, 3, "full", 1795},
    RecordedStep{kA100, k13b, 4096, 10, 3, "full", 2060},
    RecordedStep{kA100, k13b, 2048, 2, 3, "none", 2262},
    RecordedStep{kA100, k13b, 1024, 40, 3, "full", 2330},
    RecordedStep{kA100, k7b, 32768, 2, 2, "full", 1672},
    RecordedStep{kA100, k7b, 16384, 4, 2, "full", 2453},
    RecordedStep{kA100, k7b, 8192, 8, 2, "full", 3206},
    RecordedStep{kA100, k7b, 4096, 16, 2, "full", 3684},
    RecordedStep{kA100, k7b, 2048, 6, 2, "none", 4641},
    RecordedStep{kA100, k7b, 1024, 64, 2, "full", 4357},
    RecordedStep{kA100, k3b, 32768, 3, 6, "full", 3029},
    RecordedStep{kA100, k3b, 16384, 1, 6, "none", 5529},
    RecordedStep{kA100, k3b, 8192, 3, 6, "none", 7695},
    RecordedStep{kA100, k3b, 4096, 5, 6, "none", 9457},
    RecordedStep{kA100, k3b, 2048, 10, 2, "none", 10811},
    RecordedStep{kA100, k3b, 1024, 20, 6, "none", 11580},
    RecordedStep{kA100, k3b, 512, 40, 6, "none", 12127},
    RecordedStep{kA100, k1b, 16384, 2, 4, "none", 9956},
    RecordedStep{kA100, k1b, 8192, 3, 4, "none", 13814},
    RecordedStep{kA100, k1b, 4096, 7, 4, "none", 17807},
    RecordedStep{kA100, k1b, 2048, 14, 4, "none", 20513},
    RecordedStep{kA100, k1b, 1024, 18, 4, "none", 22112},
    RecordedStep{kA100, k1b, 512, 56, 4, "none", 23148},
    RecordedStep{kA100, k760m, 8192, 6, 2, "none", 20933},
    RecordedStep{kA100, k760m, 4096, 12, 2, "none", 27351},
    RecordedStep{kA100, k760m, 2048, 24, 2, "none", 32434},
    RecordedStep{kA100, k760m, 1024, 48, 2, "none", 29765},
    RecordedStep{kA100, k760m, 512, 96, 2, "none", 29446},
    RecordedStep{kA100, k350m, 8192, 8, 2, "none", 36569},
    RecordedStep{kA100, k350m, 4096, 16, 2, "none", 49555},
    RecordedStep{kA100, k350m, 2048, 32, 2, "none", 58782},
    RecordedStep{kA100, k350m, 1024, 64, 2, "none", 64813},
    RecordedStep{kA100, k350m, 512, 128, 2, "none", 69330},
    RecordedStep{kA100, k125m, 8192, 8, 2, "none", 90392},
    RecordedStep{kA100, k125m, 4096, 16, 2, "none", 118396},
    RecordedStep{kA100, k125m, 2048, 32, 2, "none", 141737},
    RecordedStep{kA100, k125m, 1024, 64, 2, "none", 156468},
    RecordedStep{kA100, k125m, 512, 128, 2, "none", 165681},
};

Job job_of(const RecordedStep& step) {
  const auto number = [](int value) { return std::to_string(value); };
  const Model& model = step.model;
  auto text = std::make_shared<SourceText>();
  text->name = "recorded.yaml";
  text->text = "model: {family: decoder, layers: " + number(model.layers) +
               ", hidden_size: " + number(model.hidden_size) + ", heads: " + number(model.heads) +
               ", ffn_size: " + number(4 * model.hidden_size) +
               ", vocab_size: 50368, activation: gelu, norm: layernorm, position: learned, "
               "max_positions: " +
               number(step.seq_len) +
               ", bias: false, tied_embeddings: true}\n"
               "training: {seq_len: " +
               number(step.seq_len) + ", micro_batch: " + number(step.micro_batch) +
               ", gradient_accumulation: " + number(step.gradient_accumulation) +
               ", precision: mixed, optimizer: adamw, recompute: " + step.recompute +
               ", implementation: {name: nanogpt, attention: sdpa-flash}}\n"
               "parallelism: {data: 8, zero: 3}\n"
               "hardware: {gpu: " +
               step.gpu + ", count: 8}\n";
  const Checked<Job> job = read_job(std::shared_ptr<const SourceText>(std::move(text)));
  REQUIRE(job.ok());
  return job.value();
}

struct Comparison {
  double ratio = 0;  ///< expected over recorded
  bool inside = false;
};

Comparison compare(const RecordedStep& step) {
  const JobEstimate estimate = estimate_job(job_of(step));
  const auto& time = std::get<TimeEstimate>(estimate.time);
  const double tokens =
      static_cast<double>(step.micro_batch) * step.seq_len * step.gradient_accumulation;
  const Seconds recorded(tokens / step.tokens_per_second_per_gpu);
  return {time.step / recorded, time.low <= recorded && recorded <= time.high};
}

}  // namespace

TEST_CASE("The interval holds four of five recorded steps, and the median is unbiased") {
  for (const char* gpu : {kH100, kA100}) {
    std::vector<double> ratios;
    std::size_t inside = 0;
    for (const RecordedStep& step : kRecordedSteps) {
      if (step.gpu != gpu) continue;
      const Comparison comparison = compare(step);
      ratios.push_back(comparison.ratio);
      inside += comparison.inside ? 1U : 0U;
    }
    std::sort(ratios.begin(), ratios.end());
    INFO(gpu);
    CHECK(10 * inside >= 8 * ratios.size());
    CHECK(ratios[ratios.size() / 2] > 0.9);
    CHECK(ratios[ratios.size() / 2] < 1.1);
  }
}

TEST_CASE("Long sequences come out within a fifth of the recorded steps") {
  constexpr int kLong = 16384;
  int compared = 0;
  for (const RecordedStep& step : kRecordedSteps) {
    if (step.seq_len < kLong) continue;
    INFO(step.gpu << ", " << step.model.layers << " layers, " << step.seq_len << " tokens");
    const double ratio = compare(step).ratio;
    CHECK(ratio > 0.8);
    CHECK(ratio < 1.2);
    ++compared;
  }
  CHECK(compared > 10);
}

}  // namespace memest
