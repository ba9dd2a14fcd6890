// MFU and HFU under their roof: what is required is no more than what is computed, and that no more
// than the peak gives in the step's time, whatever the job.
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <variant>

#include "../draws.hpp"
#include "jobs.hpp"
#include "memest/graph/lower.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/time/step_time.hpp"

namespace memest {
namespace {

struct Timed {
  FlopsEstimate flops;
  TimeEstimate time;
};

/// Without the replay of its memory.
Timed timed(const Job& job) {
  const auto lowered = lower(job.model, policy_of(job));
  REQUIRE(std::holds_alternative<Graph>(lowered));
  const Graph& graph = std::get<Graph>(lowered);
  const FlopsEstimate flops = count_flops(graph, job);
  const auto time = estimate_step_time(graph, job, flops);
  REQUIRE(std::holds_alternative<TimeEstimate>(time));
  return {flops, std::get<TimeEstimate>(time)};
}

class Specs : test::Draws {
 public:
  using Draws::Draws;

  std::string draw() {
    const int head_dim = one_of(64, 128, 256);
    const int heads = one_of(2, 8, 32);
    const bool learned = one_of(false, true);
    const bool eager = one_of(false, false, true);
    const bool adapted = one_of(false, false, true);
    const std::string tokens = one_of("128", "2048", "32768", "387072", "524288");
    return test::Text()
           << "model: {family: decoder, layers: " << one_of(1, 4, 32)
           << ", hidden_size: " << heads * head_dim << ", heads: " << heads
           << ", ffn_size: " << heads * head_dim * one_of(1, 3, 4)
           << ", vocab_size: " << one_of(512, 32000, 262144)
           << ", activation: swiglu, norm: rmsnorm, position: " << (learned ? "learned" : "rope")
           << ", max_positions: " << one_of("524288", "100000000")
           << ", tied_embeddings: " << flag() << "}\ntraining: {seq_len: " << tokens
           << ", micro_batch: " << one_of(1, 2, 16)
           << ", precision: " << (eager ? one_of("bf16", "fp32") : "bf16")
           << (adapted ? ", adapter: {lora: {rank: 16, targets: [q_proj, v_proj]}}" : "")
           << ", recompute: " << one_of("none", "full")
           << ", implementation: {name: transformers, attention: "
           << (eager ? "eager" : "sdpa-flash") << "}}\nhardware: {gpu: "
           << one_of("a100-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb", "b200-sxm-180gb",
                     "b300-sxm-288gb", "gb200", "rtx-pro-6000-server", "l40s")
           << "}\n";
  }

 private:
};

TEST_CASE("no utilisation exceeds its roof", "[plan]") {
  Specs specs(15);
  for (int i = 0; i < 300; ++i) {
    const std::string spec = specs.draw();
    INFO(spec);
    const Timed run = timed(test::job_from(spec));
    CHECK(run.flops.required > Flops(0));
    CHECK(run.flops.required <= run.flops.computed);
    CHECK(run.flops.computed <= run.flops.executed());
    CHECK(run.time.mfu <= run.time.hfu);
    CHECK(run.time.hfu <= 1);
  }
}

TEST_CASE("a table that is looked up and scores that are left out count for nothing", "[plan]") {
  const auto of = [](const char* more, const char* training) {
    return timed(test::job_from(
        "model: {family: decoder, layers: 2, hidden_size: 256, heads: 4, "
        "vocab_size: 1000, activation: gelu" +
        std::string(more) + "}\ntraining: {" + training + "}\nhardware: {gpu: h100-sxm-80gb}\n"));
  };
  const char* training = "seq_len: 1024, precision: bf16";
  const Timed few = of(", position: learned, max_positions: 1024", training);
  const Timed many = of(", position: learned, max_positions: 100000000", training);
  CHECK(few.flops.required == many.flops.required);
  // Forward and backward of causal attention: 2 + 4 products of s·s·h, half of each.
  const Timed longer =
      of(", position: learned, max_positions: 2048",
         "seq_len: 2048, precision: bf16, implementation: {attention: sdpa-flash}");
  const Timed shorter = of(", position: learned, max_positions: 2048",
                           "seq_len: 1024, micro_batch: 2, precision: bf16, "
                           "implementation: {attention: sdpa-flash}");
  const Int128 scores = Int128{2} * 6 * 256 * (2048 * 2048 - 2 * 1024 * 1024) / 2 * 2;
  CHECK(longer.flops.required - shorter.flops.required == Flops(scores));
}

TEST_CASE("an adapter requires no gradients of frozen weights", "[plan]") {
  const auto of = [](const char* adapter) {
    return timed(
        test::llama(std::string("seq_len: 2048, precision: bf16, recompute: full") + adapter,
                    "hardware: {gpu: h100-sxm-80gb}\n"));
  };
  const Timed whole = of("");
  const Timed adapted = of(", adapter: {lora: {rank: 16, targets: [q_proj, v_proj]}}");
  CHECK(adapted.flops.required < whole.flops.required);
  CHECK(adapted.time.mfu < adapted.time.hfu);
}

}  // namespace
}  // namespace memest
