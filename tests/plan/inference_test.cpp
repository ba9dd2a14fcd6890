// Forwards without gradients: what they leave, what they count, and closed form and replay of them.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <variant>

#include "../draws.hpp"
#include "drawn_jobs.hpp"
#include "jobs.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/plan/search.hpp"

namespace memest {
namespace {

constexpr std::int64_t kLayers = 3;
constexpr std::int64_t kHidden = 256;
constexpr std::int64_t kKeyHeads = 4;
constexpr std::int64_t kHeadSize = 32;
constexpr std::int64_t kVocabulary = 1000;
constexpr std::int64_t kPrompt = 128;
constexpr std::int64_t kBatch = 2;

Job prompts(const std::string& more) {
  return test::job_from(
      "model: {family: decoder, layers: 3, hidden_size: 256, heads: 8, kv_heads: 4, ffn_size: 688, "
      "vocab_size: 1000, activation: swiglu, norm: rmsnorm, position: rope}\n"
      "inference: {prompt: 128, batch: 2" +
      more + "}\nhardware: {gpu: h100-sxm-80gb}\n");
}

/// Bytes asked for that are alive after `events` events.
std::int64_t alive_after(const Timeline& timeline, std::uint32_t events) {
  std::int64_t bytes = 0;
  for (std::uint32_t i = 0; i < events; ++i) {
    const std::int64_t size = timeline.storages[timeline.events[i].storage].bytes;
    bytes += timeline.events[i].kind == EventKind::allocate ? size : -size;
  }
  return bytes;
}

/// What the last prompt's forward leaves beside the weights, the batch and the workspace.
std::int64_t answered_by(const Job& job) {
  const StepMemory memory = test::steps_of(job);
  const auto& spans = memory.timeline.spans;
  REQUIRE(spans.back().phase == Phase::forward);
  const std::uint32_t rest = spans[spans.size() - 2].end;  // the prompt has been sent
  return alive_after(memory.timeline, spans.back().end) - alive_after(memory.timeline, rest);
}

TEST_CASE("a forward without gradients leaves its logits and its cache, and nothing else") {
  constexpr std::int64_t kBytes = 2;
  constexpr std::int64_t kCache = 2 * kLayers * kBatch * kKeyHeads * kPrompt * kHeadSize * kBytes;
  constexpr std::int64_t kLogits = kBatch * kVocabulary * kBytes;
  CHECK(answered_by(prompts("")) == kCache + kLogits);
  CHECK(answered_by(prompts(", use_cache: false")) == kLogits);
  CHECK(answered_by(prompts(", logits: all")) == kCache + kPrompt * kLogits);
  CHECK(answered_by(prompts(", logits: all, use_cache: false, precision: amp-bf16")) ==
        kPrompt * kLogits);
}

TEST_CASE("every prompt makes the same events") {
  const StepMemory memory = test::steps_of(prompts(""));
  const auto& phases = memory.replay.phases;
  REQUIRE(phases.back().step == 3);
  const PhaseMemory& last = phases.back();
  const PhaseMemory& before = phases[phases.size() - 3];
  CHECK(before.phase == Phase::forward);
  CHECK(last.peak == before.peak);
  CHECK(last.end == before.end);
}

TEST_CASE(
    "a forward has no backward FLOPs, and its head runs for the tokens whose logits it gives") {
  const auto flops = [](const std::string& more) {
    return std::get<FlopsEstimate>(estimate_job(prompts(more)).flops);
  };
  const FlopsEstimate last = flops("");
  const FlopsEstimate all = flops(", logits: all");
  CHECK(last.backward == Flops());
  CHECK(all.forward.value() - last.forward.value() ==
        Int128{2 * kBatch * (kPrompt - 1) * kHidden * kVocabulary});
  CHECK(flops(", use_cache: false").forward == last.forward);
}

TEST_CASE("what inference has no value for says why") {
  const JobEstimate estimate = estimate_job(prompts(""));
  CHECK(std::get<Unavailable>(estimate.time).sentence ==
        "a forward without gradients has no training step");
  CHECK(std::holds_alternative<Unavailable>(std::get<MemoryAnswer>(estimate.memory).saved));
  CHECK(std::get<MemoryAnswer>(estimate.memory).verdict == Verdict::fits);
  const auto nanogpt = estimate_job(prompts(", implementation: nanogpt"));
  CHECK(std::get<Unavailable>(nanogpt.memory).sentence ==
        "inference is that of the implementation transformers; others are not available yet");
  const PlanRequest request{prompts(""), {}, {1}, {}};
  CHECK(std::get<Unavailable>(search_plans(request).unavailable).sentence.find("inference") !=
        std::string::npos);
}

TEST_CASE("the closed form of inference is its replay without rounding, to half a percent") {
  constexpr int kJobs = 100;
  test::Draws draws(1);
  for (int i = 0; i < kJobs; ++i) {
    const std::string spec =
        test::Text() << test::drawn_decoder(draws, "2048")
                     << "}\ninference: {batch: " << draws.one_of("1", "2", "8")
                     << ", prompt: " << draws.one_of("64", "511", "1024")
                     << ", precision: " << draws.one_of("bf16", "fp32", "amp-bf16")
                     << ", use_cache: " << draws.flag()
                     << ", logits: " << draws.one_of("last", "all")
                     << ", implementation: {name: transformers, attention: "
                     << draws.one_of("default", "eager") << "}}\nhardware: {gpu: h100-sxm-80gb}\n";
    INFO(spec);
    const test::TwoPeaks peaks = test::two_peaks_of(test::job_from(spec));
    CHECK(peaks.apart() <= peaks.replayed / 200);
  }
}

}  // namespace
}  // namespace memest
