// generate(): what its passes hold, its closed form beside its replay, and what is refused.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "../draws.hpp"
#include "drawn_jobs.hpp"
#include "jobs.hpp"
#include "memest/plan/estimate.hpp"

namespace memest {
namespace {

constexpr std::int64_t kLayers = 3;
constexpr std::int64_t kKeyHeads = 4;
constexpr std::int64_t kHeadSize = 32;
constexpr std::int64_t kPrompt = 128;
constexpr std::int64_t kPrompts = 2;
constexpr std::int64_t kBytes = 2;

std::string model(const std::string& more = "") {
  return "model: {family: decoder, layers: 3, hidden_size: 256, heads: 8, kv_heads: 4, ffn_size: "
         "688, vocab_size: 1000, activation: swiglu, norm: rmsnorm, position: rope" +
         more + "}\n";
}

Job generated(const std::string& inference, const std::string& gpu = "h100-sxm-80gb",
              const std::string& more = "") {
  return test::job_from(model(more) + "inference: {prompt: 128, batch: 2, " + inference +
                        "}\nhardware: {gpu: " + gpu + "}\n");
}

/// The bytes of the storages so labelled that one call of generate() makes, in order.
std::vector<std::int64_t> made(const StepMemory& memory, LoopTensor tensor) {
  std::vector<std::int64_t> bytes;
  for (const Storage& storage : memory.timeline.storages) {
    const Label& label = storage.label;
    if (label.step == 1 && label.origin == Origin::loop &&
        label.tensor == static_cast<std::uint16_t>(tensor)) {
      bytes.push_back(storage.bytes);
    }
  }
  return bytes;
}

/// Bytes of keys of one layer of so many tokens.
std::int64_t keys(std::int64_t sequences, std::int64_t tokens) {
  return sequences * kKeyHeads * tokens * kHeadSize * kBytes;
}

TEST_CASE("beams put keys and values of every layer in order behind every token") {
  constexpr std::int64_t kTokens = 5;
  constexpr std::int64_t kBeams = 3;
  const StepMemory memory = test::steps_of(generated("generate: 5, beams: 3"));
  std::vector<std::int64_t> expected;
  for (std::int64_t i = 0; i < kTokens; ++i) {
    expected.insert(expected.end(), 2 * kLayers, keys(kPrompts * kBeams, kPrompt + i));
  }
  CHECK(made(memory, LoopTensor::reordered_cache) == expected);
  CHECK(made(test::steps_of(generated("generate: 5")), LoopTensor::reordered_cache).empty());
}

TEST_CASE("a layer that sees a window keeps one token less than that") {
  const StepMemory memory =
      test::steps_of(generated("generate: 4, beams: 2", "h100-sxm-80gb", ", sliding_window: 130"));
  std::vector<std::int64_t> expected;
  for (const std::int64_t tokens : {128, 129, 129, 129}) {
    expected.insert(expected.end(), 2 * kLayers, keys(2 * kPrompts, tokens));
  }
  CHECK(made(memory, LoopTensor::reordered_cache) == expected);
}

TEST_CASE("the logits of a step are those of every sequence's last token, in fp32") {
  const std::vector<std::int64_t> logits =
      made(test::steps_of(generated("generate: 4, beams: 5")), LoopTensor::next_logits);
  CHECK(logits == std::vector<std::int64_t>(4, kPrompts * 5 * 1000 * 4));
}

TEST_CASE("names of a decoding pass say layer and operation") {
  const StepMemory memory = test::steps_of(generated("generate: 3"));
  std::vector<std::string> caches;
  for (StorageId id = 0; id < memory.timeline.storages.size(); ++id) {
    const Storage& storage = memory.timeline.storages[id];
    if (storage.bytes != keys(kPrompts, kPrompt + 2)) continue;
    if (storage.label.step != 1 || storage.label.phase != Phase::decode) continue;
    caches.push_back(storage_name(memory.timeline, memory.graph, id));
  }
  REQUIRE(caches.size() == 2 * kLayers);
  CHECK(caches.front() == "layer 1 of 3, k_cache, out");
  CHECK(caches.back() == "layer 3 of 3, v_cache, out");
}

TEST_CASE("every call of generate() makes the same events") {
  const StepMemory memory = test::steps_of(generated("generate: 6, beams: 2"));
  const auto& phases = memory.replay.phases;
  REQUIRE(phases.back().step == 2);
  REQUIRE(phases.back().phase == Phase::decode);
  const auto& before = phases[phases.size() - 4];
  REQUIRE(before.phase == Phase::decode);
  CHECK(phases.back().peak == before.peak);
  CHECK(phases.back().end == before.end);
}

TEST_CASE("FLOPs of generate() are those of the forward and of each token behind it") {
  const auto flops = [](const std::string& inference) {
    return std::get<FlopsEstimate>(estimate_job(generated(inference)).flops).forward.value();
  };
  // A token more attends to one key more in each of three layers, and to nothing else besides.
  const Int128 third = flops("generate: 4") - flops("generate: 3");
  const Int128 second = flops("generate: 3") - flops("generate: 2");
  CHECK(third - second == Int128{kLayers * 4 * kPrompts * 8 * kHeadSize});
  CHECK(flops("generate: 7, beams: 3") == 3 * flops("generate: 7"));
}

TEST_CASE("the closed form of generate() is its replay without rounding, to one percent") {
  constexpr int kJobs = 150;
  test::Draws draws(7);
  for (int i = 0; i < kJobs; ++i) {
    const std::string spec =
        test::Text() << test::drawn_decoder(draws, "4096")
                     << draws.one_of("", ", sliding_window: 64", ", sliding_window: 600")
                     << "}\ninference: {batch: " << draws.one_of("1", "2", "8")
                     << ", prompt: " << draws.one_of("8", "64", "511", "1024")
                     << ", generate: " << draws.one_of("1", "2", "3", "90")
                     << draws.one_of("", ", sample: true", ", beams: 2", ", beams: 5")
                     << "}\nhardware: {gpu: " << draws.one_of("h100-sxm-80gb", "a100-sxm-80gb")
                     << "}\n";
    INFO(spec);
    const test::TwoPeaks peaks = test::two_peaks_of(test::job_from(spec));
    INFO(peaks.closed_form << " for " << peaks.replayed);
    CHECK(peaks.apart() <= peaks.replayed / 100);
  }
}

TEST_CASE("what generate() has no answer for is refused by name") {
  const auto refusal = [](const std::string& inference, const std::string& decoder) {
    const bool has_prompt = inference.find("prompt") != std::string::npos;
    const JobEstimate estimate =
        estimate_job(test::job_from(decoder + "inference: {generate: 4" +
                                    (has_prompt ? "" : ", prompt: 16") + inference + "}\n"));
    REQUIRE(std::holds_alternative<Unavailable>(estimate.memory));
    return std::get<Unavailable>(estimate.memory).sentence;
  };
  CHECK(refusal(", implementation: {name: transformers, attention: eager}", model()) ==
        "generation with attention that is not one kernel is not available yet");
  CHECK(refusal(", precision: amp-bf16", model()) ==
        "generation under autocast is not available yet");
  CHECK(refusal("",
                "model: {hf: {model_type: opt, hidden_size: 64, num_hidden_layers: 2, "
                "num_attention_heads: 2, ffn_dim: 128, vocab_size: 100, "
                "max_position_embeddings: 64, word_embed_proj_dim: 64}}\n") ==
        "generation by models of model_type 'opt' is not available yet");
  CHECK(refusal(", prompt: 1", model()) ==
        "generation behind a prompt of one token is not available yet");
  CHECK(refusal("",
                "hardware: {gpu: a100-sxm-80gb}\nmodel: {family: decoder, layers: 2, "
                "hidden_size: 160, heads: 8, kv_heads: 4, ffn_size: 512, vocab_size: 100, "
                "activation: swiglu, norm: rmsnorm, position: rope}\n") ==
        "generation with heads that flash attention pads is not available yet");
  CHECK(refusal(", implementation: nanogpt", model()) ==
        "inference is that of the implementation transformers; others are not available yet");
}

TEST_CASE("the largest batch, beams and tokens are those of the verdict") {
  // Little enough for a search of small numbers: cuBLAS takes 32 MiB of it.
  const Job job = test::job_from(model() +
                                 "inference: {prompt: 100, batch: 2, generate: 20, beams: 2}\n"
                                 "hardware: {gpu: h100-sxm-80gb, memory: 60 MiB}\n");
  JobEstimate estimate = estimate_job(job);
  REQUIRE(test::memory_of(estimate).verdict == Verdict::fits);
  find_largest_micro_batch(job, estimate);
  const MemoryAnswer& answer = test::memory_of(estimate);
  const auto fits = [&](std::int64_t prompts, std::int64_t beams, std::int64_t tokens) {
    Job other = job;
    other.inference->micro_batch = prompts * beams;
    other.inference->generation->beams = beams;
    other.inference->generation->tokens = tokens;
    const JobEstimate all = estimate_job(other);
    return test::memory_of(all).verdict == Verdict::fits;
  };
  const std::int64_t prompts = answer.largest_micro_batch.value();
  CHECK(fits(prompts, 2, 20));
  CHECK_FALSE(fits(prompts + 1, 2, 20));
  REQUIRE(answer.largest_beams);
  CHECK(answer.largest_beams->bound == LargestValue::Bound::memory);
  CHECK(fits(2, answer.largest_beams->value, 20));
  CHECK_FALSE(fits(2, answer.largest_beams->value + 1, 20));
  REQUIRE(answer.largest_tokens);
  CHECK(answer.largest_tokens->bound == LargestValue::Bound::memory);
  CHECK(fits(2, 2, answer.largest_tokens->value));
  CHECK_FALSE(fits(2, 2, answer.largest_tokens->value + 1));
}

TEST_CASE("the most tokens end where the positions of the model do") {
  const Job job = test::job_from(
      "model: {hf: {model_type: gpt2, n_embd: 64, n_layer: 2, n_head: 2, n_positions: 64, "
      "vocab_size: 100}}\n"
      "inference: {prompt: 10, generate: 4, sample: true}\nhardware: {gpu: h100-sxm-80gb}\n");
  JobEstimate estimate = estimate_job(job);
  find_largest_micro_batch(job, estimate);
  const MemoryAnswer& answer = test::memory_of(estimate);
  CHECK_FALSE(answer.largest_beams);
  REQUIRE(answer.largest_tokens);
  CHECK(answer.largest_tokens->value == 55);
  CHECK(answer.largest_tokens->bound == LargestValue::Bound::key);
}

TEST_CASE("where the events are too many the closed form does not answer alone") {
  const JobEstimate estimate = estimate_job(generated("generate: 90000"));
  REQUIRE(std::holds_alternative<Unavailable>(estimate.memory));
  CHECK(std::get<Unavailable>(estimate.memory).sentence ==
        "the closed form knows no segments, so not what a growing key-value cache leaves between "
        "its blocks; the events of so many tokens are too many to be followed");
}

}  // namespace
}  // namespace memest
