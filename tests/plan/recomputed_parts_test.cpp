// Every combination of what Megatron recomputes of a layer, over latents and experts: it runs,
// keeps no more for each word, and computes no less.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "jobs.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/spec/training.hpp"

namespace memest {
namespace {

/// A mixture over layers of Transformer Engine, with latents of queries or none.
Job mixture(const std::string& query_latents, const std::string& training) {
  return test::job_from(
      "model: {family: decoder, layers: 4, hidden_size: 512, heads: 8, ffn_size: 1024, vocab_size: "
      "1024, activation: swiglu, norm: rmsnorm, position: rope, moe: {experts: 16, top_k: 4, "
      "shared_experts: 1, expert_ffn_size: 256, dense_layers: 1, capacity_factor: 1.0}, mla: "
      "{q_lora_rank: " +
      query_latents +
      ", kv_lora_rank: 128, qk_nope_head_dim: 64, qk_rope_head_dim: 32, v_head_dim: 64}}\n"
      "training: {seq_len: 512, micro_batch: 2, implementation: megatron, " +
      training +
      "}\nparallelism: {data: 4, expert: 4, distributed_optimizer: true}\n"
      "hardware: {gpu: b200-sxm-180gb, count: 4}\n");
}

struct Answer {
  std::int64_t kept = 0;  ///< bytes between the passes of the last step
  Flops executed;
};

Answer answer_of(Job job, const Recompute& recompute) {
  job.training->recompute = recompute;
  const JobEstimate estimate = estimate_job(job);
  const auto& memory = std::get<MemoryAnswer>(estimate.memory);
  REQUIRE(memory.replayed() != nullptr);
  Answer answer{.executed = std::get<FlopsEstimate>(estimate.flops).executed()};
  for (const PhaseMemory& phase : memory.replayed()->unpressed().phases) {
    if (phase.phase == Phase::forward) answer.kept = phase.end.value();
  }
  return answer;
}

/// The parts whose bits are set; nothing of what is refused, nor of fused attention alone, which
/// keeps its operands either way.
std::optional<SelectiveRecompute> parts_of(unsigned bits) {
  SelectiveRecompute parts{.attention_core = false};
  for (const SelectiveWord& word : kSelectiveWords) {
    parts.*word.part = (bits & 1U) != 0;
    bits >>= 1U;
  }
  const bool nested = parts.experts && (parts.shared_experts || parts.expert_activation);
  if (nested || !parts.beyond_attention()) return std::nullopt;
  return parts;
}

}  // namespace

TEST_CASE("each part of a layer that is recomputed keeps no more, and computes no less") {
  constexpr unsigned kWords = std::size(kSelectiveWords);
  for (const char* latents : {"0", "256"}) {
    for (const char* training : {"precision: megatron", "precision: mxfp8"}) {
      const Job job = mixture(latents, training);
      const Answer whole = answer_of(job, NoRecompute{});
      for (const FullRecompute& full :
           {FullRecompute{}, FullRecompute{.method = RecomputeMethod::block, .layers = 2}}) {
        const Answer answer = answer_of(job, full);
        CHECK(answer.kept < whole.kept);
        CHECK(answer.executed > whole.executed);
      }
      for (unsigned bits = 1; bits < 1U << kWords; ++bits) {
        const auto parts = parts_of(bits);
        if (!parts) continue;
        INFO(latents << " " << training << " " << spec_value_of(*parts));
        const Answer answer = answer_of(job, *parts);
        CHECK(answer.kept <= whole.kept);
        CHECK(answer.executed >= whole.executed);
      }
    }
  }
}

TEST_CASE("the closed form of what Megatron recomputes is the replay without rounding, to 1.1 %") {
  constexpr unsigned kWords = std::size(kSelectiveWords);
  for (const char* latents : {"0", "256"}) {
    for (const char* training : {"precision: megatron", "precision: mxfp8"}) {
      Job job = mixture(latents, training);
      for (unsigned bits = 1; bits < 1U << kWords; ++bits) {
        const auto parts = parts_of(bits);
        if (!parts) continue;
        job.training->recompute = *parts;
        INFO(latents << " " << training << " " << spec_value_of(*parts));
        CHECK(test::distance_of(job) <= 0.011);
      }
    }
  }
}

}  // namespace memest
