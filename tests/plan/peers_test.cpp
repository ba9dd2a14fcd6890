// Defects that estimators of the field were found with, each a test by its name. Others stand where
// their rules do, under the same tag: untied heads, head sizes and top-K (time/flops_test.cpp),
// grouped queries and capacities (estimate_test.cpp), batches beyond the GPU (search_test.cpp).
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "jobs.hpp"
#include "memest/plan/estimate.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;

Bytes saved_by(const Job& job) {
  const JobEstimate estimate = estimate_job(job);
  return std::get<Bytes>(std::get<MemoryAnswer>(estimate.memory).saved);
}

/// What is alive at the peak of the rank that takes most.
Bytes alive_at_peak(const MemoryAnswer& answer, Holding holding) {
  REQUIRE(answer.replayed() != nullptr);
  return answer.replayed()->unpressed().peak.by_holding[static_cast<std::size_t>(holding)];
}

Bytes alive_at_peak(const Job& job, Holding holding) {
  const JobEstimate estimate = estimate_job(job);
  return alive_at_peak(std::get<MemoryAnswer>(estimate.memory), holding);
}

constexpr const char* kSmall =
    "hidden_size: 512, heads: 8, vocab_size: 2000, norm: rmsnorm, position: rope";

TEST_CASE("a gated feed-forward stores gate, its activation, up and their product", "[peers]") {
  const auto saved = [](const std::string& more) {
    return saved_by(
        test::job_from("model: {family: decoder, layers: 3, " + std::string(kSmall) + more +
                       "}\ntraining: {seq_len: 256, micro_batch: 2, precision: bf16}\n"));
  };
  constexpr std::int64_t kTokens = 2 * 256;
  constexpr std::int64_t kMore = 128;  // channels
  CHECK(saved(", activation: swiglu, ffn_size: 1152") -
            saved(", activation: swiglu, ffn_size: 1024") ==
        Bytes(std::int64_t{4} * 2 * kTokens * kMore * 3));
  CHECK(saved(", activation: silu, ffn_size: 1152") - saved(", activation: silu, ffn_size: 1024") ==
        Bytes(std::int64_t{2} * 2 * kTokens * kMore * 3));
}

TEST_CASE("checkpoints keep 2·b·s·h a layer: the inputs, and not 34 of them", "[peers]") {
  const auto saved = [](int layers) {
    return saved_by(test::job_from("model: {family: decoder, layers: " + std::to_string(layers) +
                                   ", " + kSmall +
                                   ", activation: gelu}\ntraining: {seq_len: 256, micro_batch: 2, "
                                   "precision: bf16, recompute: full}\n"));
  };
  CHECK(saved(5) - saved(4) == Bytes(std::int64_t{2} * 2 * 256 * 512));
}

TEST_CASE("twelve bytes a logit are alive when the loss goes backward", "[peers]") {
  const auto peak = [](int vocabulary) {
    const JobEstimate estimate = estimate_job(test::job_from(
        "model: {family: decoder, layers: 1, hidden_size: 64, heads: 2, activation: gelu, norm: "
        "rmsnorm, position: rope, vocab_size: " +
        std::to_string(vocabulary) +
        "}\ntraining: {seq_len: 1024, micro_batch: 4, precision: bf16, optimizer: sgd}\n"));
    return test::requested_peak(std::get<MemoryAnswer>(estimate.memory).replayed()->step.timeline);
  };
  // Table, head and their gradients: 2 · 2 · 2 · h bytes a word beside those of its logits.
  constexpr std::int64_t kWord = 12 * 4 * 1024;
  const std::int64_t more = peak(51'000) - peak(50'000);
  CHECK(more >= kWord * 1000);
  CHECK(more <= (kWord + 8 * 64) * 1000);
}

TEST_CASE("frozen parameters have no gradients and no states", "[peers]") {
  const std::string model =
      "model: {hf: {model_type: llama, hidden_size: 256, intermediate_size: 704, "
      "num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 4, vocab_size: 1000}}\n";
  const std::string training =
      "training: {seq_len: 64, precision: bf16, adapter: {lora: {rank: 8, "
      "targets: [q_proj, v_proj]}}}\n";
  const JobEstimate estimate = estimate_job(test::job_from(model + training));
  const std::int64_t trained = 2 * 2 * 8 * (256 + 256);
  CHECK(estimate.parameters.trainable == trained);
  // exp_avg and exp_avg_sq in fp32; tensors are rounded up to 512 bytes.
  const auto& memory = std::get<MemoryAnswer>(estimate.memory);
  CHECK(alive_at_peak(memory, Holding::optimizer_states) == Bytes(8 * trained));
  CHECK(alive_at_peak(memory, Holding::gradients) <= Bytes(4 * trained));
}

TEST_CASE("gradients and states are divided over tensor and pipeline ranks", "[peers]") {
  const auto states = [](const std::string& parallelism, int gpus) {
    return alive_at_peak(
        test::job_from(
            "model: {family: decoder, layers: 4, hidden_size: 512, heads: 8, ffn_size: "
            "1024, vocab_size: 2048, activation: swiglu, norm: rmsnorm, position: rope, "
            "max_positions: 256, bias: false, dropout: 0.0}\n"
            "training: {seq_len: 256, global_batch: 4, precision: megatron, implementation: "
            "{name: megatron, layers: local, attention: unfused}}\n"
            "parallelism: {data: 1, distributed_optimizer: true" +
            parallelism + "}\nhardware: {gpu: h100-sxm-80gb, count: " + std::to_string(gpus) +
            "}\n"),
        Holding::optimizer_states);
  };
  const double whole = states("", 1).as_double();
  // Norms are whole on every tensor rank; a pipeline's ends have the tables.
  CHECK(states(", tensor: 4", 4).as_double() < 0.26 * whole);
  CHECK(states(", pipeline: 4", 4).as_double() < 0.45 * whole);
}

TEST_CASE("stage i of p holds the activations of p − i micro-batches", "[peers]") {
  const JobEstimate estimate = estimate_job(test::job_from(
      "model: {family: decoder, layers: 8, hidden_size: 512, heads: 8, ffn_size: 1024, vocab_size: "
      "2048, activation: swiglu, norm: rmsnorm, position: rope, max_positions: 512, bias: false, "
      "dropout: 0.0}\n"
      "training: {seq_len: 512, global_batch: 16, precision: megatron, implementation: {name: "
      "megatron, "
      "layers: local, attention: unfused}}\n"
      "parallelism: {data: 1, pipeline: 4, distributed_optimizer: true}\n"
      "hardware: {gpu: h100-sxm-80gb, count: 4}\n"));
  std::vector<double> activations(4);
  const auto note = [&](const MemoryAnswer& answer) {
    activations.at(static_cast<std::size_t>(answer.ranks.rank)) =
        alive_at_peak(answer, Holding::activations).as_double();
  };
  note(std::get<MemoryAnswer>(estimate.memory));
  for (const MemoryAnswer& answer : estimate.other_ranks) note(answer);
  // Of the middle stages, which are alike but for their place.
  CHECK(activations[1] / activations[2] > 1.4);
  CHECK(activations[1] / activations[2] < 1.6);
}

TEST_CASE("a multiply-add is two FLOPs", "[peers]") {
  const JobEstimate estimate = estimate_job(test::job_from(
      "model: {layers: [{linear: {in: 128, out: 512, bias: false}}], loss: mean-square}\n"
      "training: {seq_len: 64, micro_batch: 2, precision: fp32}\n"));
  CHECK(std::get<FlopsEstimate>(estimate.flops).forward == Flops(Int128{2} * 2 * 64 * 128 * 512));
}

TEST_CASE("a key-value cache has keys and values, of the key-value heads alone", "[peers]") {
  const auto cached = [](const std::string& more, const std::string& cache) {
    const JobEstimate estimate = estimate_job(test::job_from(
        "model: {hf: {model_type: " + more +
        ", hidden_size: 256, intermediate_size: 704, num_hidden_layers: 3, num_attention_heads: 8, "
        "num_key_value_heads: 4, head_dim: 32, vocab_size: 1000}}\n"
        "inference: {prompt: 256, batch: 2, generate: 0, logits: last" +
        cache + "}\nhardware: {gpu: h100-sxm-80gb}\n"));
    const Timeline& timeline = std::get<MemoryAnswer>(estimate.memory).replayed()->step.timeline;
    std::int64_t alive = 0;
    for (std::uint32_t i = 0; i < timeline.spans.back().end; ++i) {
      const std::int64_t bytes = timeline.storages[timeline.events[i].storage].bytes;
      alive += timeline.events[i].kind == EventKind::allocate ? bytes : -bytes;
    }
    return alive;
  };
  CHECK(cached("llama", ", use_cache: true") - cached("llama", ", use_cache: false") ==
        std::int64_t{2} * 3 * 4 * 32 * 256 * 2 * 2);
}

TEST_CASE("GB and GiB are two units, and a size without one is refused", "[peers]") {
  const auto memory = [](const std::string& size) {
    return test::gpt2("seq_len: 64", "hardware: {gpu: h100-sxm-80gb, memory: " + size + "}\n")
        .hardware.memory;
  };
  CHECK(memory("80 GB") == Bytes(80'000'000'000));
  CHECK(memory("80 GiB") == Bytes(std::int64_t{80} << 30));
  const auto text = std::make_shared<const SourceText>(
      SourceText{"test.yaml", "model: gpt2\ntraining: {seq_len: 64}\nhardware: {memory: 80}\n"});
  CHECK_FALSE(read_job(text).ok());
}

TEST_CASE("a misspelled key is an error with a suggestion", "[peers]") {
  const auto text = std::make_shared<const SourceText>(
      SourceText{"test.yaml", "model: gpt2\ntraining: {seq_len: 64, mirco_batch: 4}\n"});
  const Checked<Job> job = read_job(text);
  REQUIRE_FALSE(job.ok());
  CHECK_THAT(job.diagnostics().front().message, ContainsSubstring("mirco_batch"));
  CHECK_THAT(job.diagnostics().front().hint, ContainsSubstring("micro_batch"));
}

}  // namespace
}  // namespace memest
