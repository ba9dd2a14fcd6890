// What litgpt's finetune does not run is refused by name, at the key that asks for it.
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "memest/diag/diagnostic.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

Checked<Job> read(const std::string& training, const std::string& parallelism) {
  const bool alone = parallelism.empty();
  return read_job(std::make_shared<const SourceText>(SourceText{
      "test.yaml", "model: llama-2-7b\ntraining: {seq_len: 2048, implementation: litgpt" +
                       training + "}\n" + (alone ? "" : "parallelism: " + parallelism + "\n") +
                       "hardware: {gpu: h100-sxm-80gb, count: " + (alone ? "1" : "8") + "}\n"}));
}

/// Messages of a 7B's spec, a line each, with their hints.
std::string refused(const std::string& training, const std::string& parallelism = "") {
  std::string messages;
  const Checked<Job> job = read(training, parallelism);
  for (const Diagnostic& diagnostic : job.diagnostics()) {
    messages += diagnostic.message + ": " + diagnostic.hint + "\n";
  }
  return messages;
}

constexpr const char* kLora = ", adapter: {lora: {rank: 8, targets: [query, value]}}";
constexpr const char* kQlora =
    ", optimizer: paged-adamw, adapter: {qlora: {rank: 8, targets: [query, value]}}";

TEST_CASE("litgpt's finetune has its loss, LoRA in the model's type and nf4 for every layer") {
  CHECK(refused("").empty());
  CHECK(refused(", precision: fp32").empty());
  CHECK(refused(", precision: amp-bf16").empty());
  const Checked<Job> read_one = read(kQlora, "");
  REQUIRE(read_one.ok());
  const Job& job = read_one.value();
  CHECK(job.training->recipe.name == "bf16");
  CHECK(job.training->implementation.loss == LossKernel::chunked);
  CHECK(job.model.adapter->dtype == DType::bf16);
  REQUIRE(job.model.quantized);
  CHECK_FALSE(job.model.quantized->double_quant);
  CHECK(job.model.quantized->skip_modules.empty());
}

TEST_CASE("what litgpt does not run is refused by name") {
  CHECK(refused(", precision: amp-fp16") ==
        "litgpt's precisions are bf16-true, bf16-mixed and 32-true: set 'precision' to bf16, "
        "amp-bf16 or fp32\n");
  CHECK(refused(", recompute: full") ==
        "litgpt's finetune recomputes every block on several GPUs, and none on one: set "
        "'recompute' to full on several GPUs, else to none\n");
  CHECK(refused(", clip_gradients: true") ==
        "litgpt's finetune clips no gradients (it does not support max_norm): leave "
        "'clip_gradients' out\n");
  CHECK(refused(", hold_outputs: false") ==
        "litgpt's finetune keeps the logits until the next forward: leave 'hold_outputs' out\n");
  CHECK(refused(", adapter: {ia3: {targets: [k_proj, v_proj, w2], feedforward: [w2]}}")
            .starts_with("of litgpt's adapters LoRA is available: set 'adapter' to lora\n"));
  CHECK(refused(", adapter: {lora: {rank: 8, targets: [fc_1, mlp.proj]}}") ==
        "litgpt's lora_mlp adapts all layers of a feed-forward: name each of its layers, "
        "or none\n");
  CHECK(refused(", adapter: {qlora: {rank: 8, targets: [query]}}") ==
        "litgpt steps adapters of quantised weights with bitsandbytes' PagedAdamW: set "
        "'optimizer' to paged-adamw\n");
}

TEST_CASE("litgpt's ranks share the model by one version of FSDP") {
  const std::string full = ", recompute: full";
  const std::string lora = full + kLora;
  const std::string first = "{data: 8, zero: 3, fsdp: {version: 1, no_sync: true}}";
  const std::string second = "{data: 8, zero: 3, fsdp: {version: 2}}";
  CHECK(refused(full, first).empty());
  CHECK(refused(lora, second).empty());
  CHECK(refused(full, "{data: 8}").empty());
  CHECK(refused(lora, "{data: 8}").empty());
  CHECK(refused(full, second) == "litgpt's finetune_full shards with FSDP1: set 'version' to 1\n");
  CHECK(refused(lora, first) == "litgpt's finetune_lora shards with FSDP2: set 'version' to 2\n");
  CHECK(refused("", first) ==
        "litgpt's finetune recomputes every block on several GPUs, and none on one: set "
        "'recompute' to full on several GPUs, else to none\n");
  CHECK(refused(full + ", gradient_accumulation: 2", "{data: 8, zero: 3, fsdp: {version: 1}}") ==
        "litgpt's finetune reduces gradients in a step's last micro-step: set 'no_sync' to true\n");
  CHECK(refused(lora, "{data: 8, zero: 3, fsdp: {version: 2, replicate: 2}}") ==
        "litgpt's finetune shards over all ranks: leave the replicas out\n");
  CHECK(refused(full + kQlora, second) ==
        "litgpt refuses quantised weights on several GPUs: leave 'parallelism' out\n");
}

}  // namespace
}  // namespace memest
