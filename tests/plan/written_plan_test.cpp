// The rows of a plan as specs that a user writes: every one is read, and estimated as the row says.
#include <fmt/format.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "memest/graph/lower.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/plan/search.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/spec/parallel/sharing.hpp"

namespace memest {
namespace {

struct Program {
  const char* implementation;
  const char* precision;
  const char* adapter;  ///< of `training`; empty without
};

constexpr const char* kSmall =
    "num_hidden_layers: 3, hidden_size: 256, intermediate_size: 512, num_attention_heads: 4, "
    "num_key_value_heads: 2";
constexpr const char* kGpu = "a100-sxm-80gb";
/// Weights in bf16 of more than a GPU of 80 GB has.
constexpr const char* kLlama70b =
    "num_hidden_layers: 80, hidden_size: 8192, intermediate_size: 28672, num_attention_heads: 64, "
    "num_key_value_heads: 8";

/// A spec that leaves the layout, the micro-batch and the recompute to the plan, but for what is
/// `chosen`.
std::string text_of(const Program& program, const std::string& chosen, const char* sizes = kSmall) {
  const std::string adapter = program.adapter;
  return fmt::format(
      "model: {{hf: {{model_type: llama, {}, vocab_size: 32000, tie_word_embeddings: false}}}}\n"
      "training: {{seq_len: 512, implementation: {}, precision: {}{}{}\n",
      sizes, program.implementation, program.precision,
      adapter.empty() ? "" : ", adapter: " + adapter, chosen);
}

Job read(const std::string& text) {
  INFO(text);
  Checked<Job> job = read_job(std::make_shared<const SourceText>(SourceText{"spec.yaml", text}));
  for (const Diagnostic& one : job.diagnostics()) UNSCOPED_INFO(one.message);
  REQUIRE(job.ok());
  return std::move(job).value();
}

PlanAnswer plan_of(const Program& program) {
  PlanRequest request;
  request.job = read(text_of(program, ", global_batch: 16}"));
  const Checked<GpuSpec> gpu = find_gpu(kGpu);
  REQUIRE(gpu.ok());
  request.gpus = {gpu.value()};
  request.job.hardware.assumed = false;
  request.counts = {1, 4};
  request.finalists = request.misses = 2;
  return search_plans(request);
}

/// As a user writes what the row chose.
std::string spec_of(const Program& program, const PlanCandidate& candidate) {
  const Sharing sharing = sharing_of(candidate.parallelism);
  std::string layout = fmt::format("data: {}", candidate.parallelism.data);
  if (sharing.in_units() || sharing.in_stages()) {
    const WrittenKey written = written_key_of(sharing);
    layout += ", " + written.key + ": " + written.value;
  }
  return text_of(program, fmt::format(", micro_batch: {}, gradient_accumulation: {}, recompute: "
                                      "{}}}\nhardware: {{gpu: {}, count: {}}}\nparallelism: {{{}}}",
                                      candidate.micro_batch, candidate.gradient_accumulation,
                                      text_of(candidate.recompute), kGpu, candidate.gpus, layout));
}

constexpr const char* kLora = "{lora: {rank: 8, targets: [q_proj, v_proj]}}";
constexpr const char* kQlora = "{qlora: {rank: 8, targets: [q_proj, v_proj]}}";
constexpr const char* kQloraInBf16 =
    "{qlora: {rank: 8, targets: [q_proj, v_proj], quant_storage: bf16}}";
constexpr const char* kQloraInFp32 =
    "{qlora: {rank: 8, targets: [q_proj, v_proj], quant_storage: fp32}}";
constexpr const char* kLoraOfLitgpt = "{lora: {rank: 8, targets: [query, value]}}";

}  // namespace

TEST_CASE("every row of a plan is a spec that is read, and estimated as the row says") {
  constexpr std::array kPrograms = {
      Program{"transformers", "amp-bf16", kLora},
      Program{"transformers", "bf16", "{lora: {rank: 8, targets: [q_proj], dtype: model}}"},
      Program{"transformers", "bf16-autocast", kLora},
      Program{"transformers", "fp32", "{dora: {rank: 8, targets: [q_proj]}}"},
      Program{"{name: transformers, loop: trainer}", "bf16", kLora},
      Program{"{name: transformers, loop: trainer}", "amp-bf16",
              "{lora: {rank: 8, targets: [q_proj], modules_to_save: [lm_head]}}"},
      Program{"{name: transformers, loop: sft}", "amp-bf16", ""},
      Program{"{name: transformers, loop: sft}", "bf16-autocast", kQlora},
      Program{"{name: transformers, loop: trainer}", "bf16-autocast", kQloraInBf16},
      Program{"{name: transformers, loop: trainer}", "bf16", kQloraInFp32},
      Program{"{name: transformers, loop: sft}", "bf16-autocast", kLora},
      Program{"{name: transformers, loop: dpo}", "fp32", ""},
      Program{"{name: transformers, loop: dpo}", "amp-bf16", kLora},
      Program{"torchtune", "bf16", ""},
      Program{"torchtune", "bf16", kLora},
      Program{"litgpt", "bf16", ""},
      Program{"litgpt", "bf16", kLoraOfLitgpt},
  };
  for (const Program& program : kPrograms) {
    INFO(program.implementation << " " << program.precision << " " << program.adapter);
    const PlanAnswer answer = plan_of(program);
    CHECK(answer.best.size() == 2);
    for (const PlanVerdict& row : answer.best) {
      const std::string text = spec_of(program, row.candidate);
      const JobEstimate estimate = estimate_job(read(text));
      INFO(text);
      const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
      REQUIRE(memory != nullptr);
      CHECK(memory->verdict == row.verdict);
      CHECK(memory->of_capacity().expected == row.device);
      CHECK(memory->of_capacity().high == row.high);
    }
  }
}

TEST_CASE("LoRA is planned in FSDP2's shards where whole replicas do not fit") {
  constexpr std::array kPrograms = {
      Program{"transformers", "amp-bf16", kLora},
      Program{"{name: transformers, loop: trainer}", "bf16", kLora},
      Program{"{name: transformers, loop: sft}", "amp-bf16", kLora},
      Program{"torchtune", "bf16", kLora},
      Program{"litgpt", "bf16", kLoraOfLitgpt},
  };
  for (const Program& program : kPrograms) {
    INFO(program.implementation);
    const auto largest = [&](std::int64_t gpus) {
      PlanRequest request;
      request.job = read(text_of(program, ", global_batch: 16}", kLlama70b));
      const Checked<GpuSpec> gpu = find_gpu(kGpu);
      REQUIRE(gpu.ok());
      request.gpus = {gpu.value()};
      request.counts = {gpus};
      request.finalists = request.misses = 1;
      return search_plans(request);
    };
    CHECK(largest(1).best.empty());
    const PlanAnswer answer = largest(8);
    REQUIRE(answer.best.size() == 1);
    CHECK(answer.best.front().candidate.parallelism.shards_rows());
  }
}

TEST_CASE("a plan names the precision, the adapter or the recompute that leaves no layout") {
  const auto reason_of = [](const char* precision, const Recompute& recompute, std::int64_t gpus) {
    PlanRequest request;
    request.job = read(text_of({"litgpt", precision, ""}, ", global_batch: 16, recompute: none}"));
    request.job.training->recompute = recompute;
    const Checked<GpuSpec> gpu = find_gpu(kGpu);
    REQUIRE(gpu.ok());
    request.gpus = {gpu.value()};
    request.counts = {gpus};
    request.finalists = request.misses = 1;
    const PlanAnswer answer = search_plans(request);
    REQUIRE(answer.refused.size() == 1);
    return answer.refused.front().reason;
  };
  CHECK(reason_of("fp32", NoRecompute{}, 4) ==
        "litgpt has no layout of 4 GPUs for such a precision, adapter or quantised base");
  CHECK(reason_of("bf16", FullRecompute{}, 1) ==
        "litgpt does not train with 'recompute: full' on 1 GPU");
  CHECK(reason_of("bf16", NoRecompute{}, 4) ==
        "litgpt does not train with 'recompute: none' on 4 GPUs");
}

}  // namespace memest
