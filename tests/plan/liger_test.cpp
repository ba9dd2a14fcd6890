// Liger's kernels: the closed form held to the replay, their FLOPs and calls, and what they refuse.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <variant>

#include "../draws.hpp"
#include "jobs.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/plan/step_memory.hpp"
#include "memest/time/flops.hpp"
#include "memest/time/work.hpp"
#include "plan/layouts/space.hpp"

namespace memest {
namespace {

struct Family {
  const char* name;
  const char* gate;     ///< its kernel's name
  const char* further;  ///< keys of its config
};
constexpr std::array kFamilies = {
    Family{"llama", "swiglu", "hidden_act: silu"},
    Family{"mistral", "swiglu", "hidden_act: silu, sliding_window: null"},
    Family{"qwen2", "swiglu", "hidden_act: silu"},
    Family{"qwen3", "swiglu", "hidden_act: silu"},
    Family{"gemma", "geglu", "hidden_act: gelu_pytorch_tanh"},
    Family{"gemma2", "geglu",
           "hidden_activation: gelu_pytorch_tanh, query_pre_attn_scalar: 64, sliding_window: 96"}};

class Specs : test::Draws {
 public:
  using Draws::Draws;

  std::string draw() {
    const Family& family = kFamilies[below(kFamilies.size())];
    const int head_dim = one_of(32, 64, 128);
    const int kv_heads = one_of(1, 2, 4);
    const int heads = kv_heads * one_of(1, 2, 3);
    const int hidden_size = heads * head_dim;
    const std::string way = one_of("", "", "data: 2", "data: 4, zero: 3, fsdp: {version: 2}");
    const bool sharded = way.find("fsdp") != std::string::npos;
    return test::Text() << "model: {hf: {model_type: " << family.name << ", " << family.further
                        << ", num_hidden_layers: " << one_of(1, 2, 3, 5)
                        << ", hidden_size: " << hidden_size << ", num_attention_heads: " << heads
                        << ", num_key_value_heads: " << kv_heads << ", head_dim: " << head_dim
                        << ", intermediate_size: " << hidden_size * one_of(2, 3, 4)
                        << ", vocab_size: " << one_of(512, 1000, 5003, 32000)
                        << ", max_position_embeddings: 2048, tie_word_embeddings: " << flag()
                        << "}}\ntraining: {micro_batch: " << one_of(1, 2, 3, 8)
                        << ", seq_len: " << one_of(64, 128, 511, 1024) << ", precision: "
                        << (sharded
                                ? "fsdp2-bf16"
                                : one_of("bf16", "amp-bf16", "fp32", "amp-fp16", "bf16-autocast"))
                        << ", optimizer: {name: " << one_of("adamw", "sgd")
                        << ", implementation: fused}, recompute: " << one_of("none", "none", "full")
                        << ", gradient_accumulation: " << one_of(1, 2)
                        << ", clip_gradients: " << flag()
                        << ", implementation: {name: transformers, attention: "
                        << one_of("sdpa", "eager")
                        << ", loop: " << (sharded ? "plain" : one_of("plain", "trainer"))
                        << ", liger: " << kernels(family) << "}}\n"
                        << (way.empty() ? "" : "parallelism: {" + way + "}\n")
                        << "hardware: {gpu: h100-sxm-80gb, count: "
                        << (sharded       ? "4"
                            : way.empty() ? "1"
                                          : "2")
                        << "}\n";
  }

 private:
  std::string kernels(const Family& family) {
    if (one_of(true, false)) return "true";
    std::string text = "{";
    for (const char* name : {"rope", "rms_norm", "fused_linear_cross_entropy"}) {
      text += test::Text() << name << ": " << flag() << ", ";
    }
    return test::Text() << text << family.gate << ": " << flag() << "}";
  }
};

Job without_liger(Job job) {
  job.training->implementation.liger = {};
  return job;
}

std::string llama(const std::string& config, const std::string& training) {
  return "model: {hf: {model_type: llama, num_hidden_layers: 2, hidden_size: 256, "
         "num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 704, vocab_size: "
         "5000, "
         "max_position_embeddings: 2048" +
         config + "}}\ntraining: {micro_batch: 2, seq_len: 500, " + training +
         "}\nhardware: {gpu: h100-sxm-80gb}\n";
}

std::string refusal_of(const std::string& spec) {
  const auto memory = step_memory_of(test::job_from(spec));
  const auto* reason = std::get_if<Unavailable>(&memory);
  return reason == nullptr ? "" : reason->sentence;
}

/// What the kernel takes that sums a norm weight's gradient over the tokens (ATen's Reduce.cuh, for
/// thread blocks that share an output): at most two fp32 numbers of every token and channel. The
/// closed form leaves it out, and beside Liger's loss the last norm's backward can be the peak.
std::int64_t reduction_scratch(const Job& job) {
  constexpr std::int64_t kBytes = 2 * 4;
  const TrainingSpec& training = *job.training;
  return kBytes * training.micro_batch * training.seq_len *
         std::get<DecoderSpec>(job.model.architecture).hidden_size;
}

TEST_CASE("with Liger's kernels the closed form is as near to the replay as without") {
  constexpr int kJobs = 120;
  Specs specs(1);
  int close = 0;
  for (int i = 0; i < kJobs; ++i) {
    const std::string spec = specs.draw();
    INFO(spec);
    const Job job = test::job_from(spec);
    const test::TwoPeaks peaks = test::two_peaks_of(job);
    const std::int64_t without = test::two_peaks_of(without_liger(job)).apart();
    CHECK(peaks.apart() <= without + reduction_scratch(job) + peaks.replayed / 1000);
    if (peaks.apart() <= peaks.replayed / 1000) ++close;
  }
  CHECK(close >= kJobs * 9 / 10);
}

TEST_CASE(
    "Liger's kernels count the FLOPs of the model's own, the head's gradients in the forward") {
  constexpr int kJobs = 60;
  Specs specs(2);
  for (int i = 0; i < kJobs; ++i) {
    const std::string spec = specs.draw();
    INFO(spec);
    const Job job = test::job_from(spec);
    const Job own = without_liger(job);
    const FlopsEstimate with = count_flops(test::steps_of(job).graph, job);
    const FlopsEstimate without = count_flops(test::steps_of(own).graph, own);
    CHECK(with.forward.value() + with.backward.value() ==
          without.forward.value() + without.backward.value());
    CHECK(with.forward.value() >= without.forward.value());
  }
}

TEST_CASE("the output head is multiplied part by part, each as large as a power of two of tokens") {
  // 1000 tokens, a vocabulary of 19.6 hidden states: parts of at least 50 tokens, so of 64.
  const Job job = test::job_from(
      llama("", "precision: bf16, implementation: {name: transformers, liger: true}"));
  const StepMemory step = test::steps_of(job);
  const StepWork work = work_of(step.graph, job);
  std::vector<MatmulShape> products;
  for (const OpWork& op : work.ops) {
    if (op.op->name != "lm_head" || op.op->kind != OpKind::linear) continue;
    CHECK(op.backward_calls.empty());
    CHECK(op.forward_calls.size() == 16);
    products.push_back(std::get<MatmulShape>(op.forward_calls.front()));
  }
  REQUIRE(products.size() == 3);
  const auto sizes = [&](std::size_t i) {
    return std::array{products[i].m, products[i].n, products[i].k};
  };
  CHECK(sizes(0) == std::array<std::int64_t, 3>{63, 5000, 256});  // 1000 tokens over 16 parts
  CHECK(sizes(1) == std::array<std::int64_t, 3>{63, 256, 5000});
  CHECK(sizes(2)[1] == 256);
  CHECK(sizes(2)[2] == 64);
}

TEST_CASE("seconds of the fused loss on an A100 are within 12 % of published ones") {
  // linkedin/Liger-Kernel, benchmark/data/all_benchmark_data.csv (facts of a BSD-2-Clause project):
  // fused_linear_cross_entropy, forward, bf16, h 4096, v 128256. Nothing was fitted to them.
  struct Row {
    int tokens;
    double seconds;
  };
  for (const Row& row :
       {Row{4096, 0.11952}, Row{8192, 0.16809}, Row{16384, 0.27407}, Row{32768, 0.50847}}) {
    const Job job = test::job_from(
        "model: {hf: {model_type: llama, num_hidden_layers: 1, hidden_size: 4096, "
        "num_attention_heads: 32, intermediate_size: 14336, vocab_size: 128256, "
        "max_position_embeddings: 32768}}\ntraining: {precision: bf16, implementation: {name: "
        "transformers, liger: true}, seq_len: " +
        std::to_string(row.tokens) + "}\nhardware: {gpu: a100-sxm-80gb}\n");
    const JobEstimate estimate = estimate_job(job, 0);
    REQUIRE(std::holds_alternative<TimeEstimate>(estimate.time));
    double seconds = 0;
    for (const OpTime& op : std::get<TimeEstimate>(estimate.time).ops) {
      if (op.op == "lm_head") seconds += op.seconds.value();
    }
    INFO(row.tokens << " tokens: " << seconds);
    CHECK(std::abs(seconds / row.seconds - 1) <= 0.12);
  }
}

TEST_CASE("a plan shares beside Liger's kernels what an estimate answers: DDP and FSDP2") {
  for (const char* loop : {"plain", "trainer"}) {
    const Job job = test::job_from(llama(
        "", "implementation: {name: transformers, liger: true, loop: " + std::string(loop) + "}"));
    Parallelism layout;
    layout.data = 8;
    const std::vector<Sharing> choices = sharing_choices(job, layout);
    CHECK(choices.size() > (loop == std::string("plain") ? 1U : 0U));
    for (const Sharing& sharing : choices) {
      CHECK((sharing.zero == ZeroStage::none || sharing.fsdp));
      CHECK_FALSE(sharing.offload.any());
      CHECK((loop == std::string("plain") || !sharing.fsdp));
    }
  }
}

TEST_CASE("what Liger's kernels do not stand in is refused by name") {
  const std::string liger = "precision: bf16, implementation: {name: transformers, liger: true}";
  CHECK(refusal_of(llama("", liger)).empty());
  CHECK(refusal_of(llama(", mlp_bias: true", liger)) ==
        "Liger's gated feed-forward has no bias and the activation of the model's family");
  CHECK(refusal_of(llama("", liger + ", loss: sum-of-logits")) ==
        "Liger's fused loss makes no logits: 'loss' has to be cross-entropy");
  CHECK(refusal_of(llama("", liger + ", use_cache: true")) ==
        "a key-value cache beside Liger's kernels is not available yet");
  CHECK(refusal_of(llama("",
                         "precision: bf16, implementation: {name: transformers, compile: "
                         "blocks, liger: true}")) ==
        "torch.compile beside Liger's kernels is not available yet");
  CHECK(refusal_of(llama("", liger + ", adapter: {lora: {rank: 8, targets: [q_proj, lm_head]}}")) ==
        "an adapter of the output head beside Liger's fused loss is not available yet");
  CHECK(
      refusal_of("model: gpt2\ntraining: {seq_len: 128, " + liger + "}\n") ==
      "Liger's kernels are available in models of model_type llama, mistral, qwen2, qwen3, gemma, "
      "gemma2");
  std::string t4 = llama("", liger);
  t4.replace(t4.find("h100-sxm-80gb"), 13, "t4");
  CHECK(refusal_of(t4) ==
        "Liger's fused loss on GPUs before compute capability 8.0 is not available yet");
}

}  // namespace
}  // namespace memest
