// What torchtune's recipes do not run is refused by name, at the key that asks for it.
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

Checked<Job> read(const std::string& training, const std::string& parallelism) {
  return read_job(std::make_shared<const SourceText>(SourceText{
      "test.yaml", "model: llama-3-8b\ntraining: {seq_len: 2048, implementation: torchtune" +
                       training + "}\nparallelism: " + parallelism +
                       "\nhardware: {gpu: h100-sxm-80gb, count: 8}\n"}));
}

/// Messages of an 8B's spec, a line each, with their hints.
std::string refused(const std::string& training,
                    const std::string& parallelism = "{data: 8, zero: 3, fsdp: {version: 2}}") {
  std::string messages;
  const Checked<Job> job = read(training, parallelism);
  for (const Diagnostic& diagnostic : job.diagnostics()) {
    messages += diagnostic.message + ": " + diagnostic.hint + "\n";
  }
  return messages;
}

TEST_CASE("torchtune runs one type, FSDP2, checkpoints of layers and LoRA in the model's type") {
  CHECK(refused("").empty());
  CHECK(refused("", "{data: 8}").empty());
  CHECK(refused(", precision: fp32, recompute: full").empty());
  const Checked<Job> read_one = read(", adapter: {lora: {rank: 8, targets: [q_proj, w1]}}",
                                     "{data: 8, zero: 3, fsdp: {version: 2}}");
  REQUIRE(read_one.ok());
  const Job& job = read_one.value();
  CHECK(job.training->recipe.name == "bf16");
  CHECK(job.training->implementation.loss == LossKernel::chunked);
  CHECK(job.training->optimizer_implementation == OptimizerImplementation::fused);
  CHECK(job.model.adapter->dtype == DType::bf16);
}

TEST_CASE("what its recipes do not run is refused by name") {
  CHECK(refused(", precision: amp-bf16") ==
        "torchtune's dtype is that of weights, gradients and states alike, bf16 or fp32: set "
        "'precision' to bf16 or fp32\n");
  CHECK(refused(", recompute: {every: 2}") ==
        "torchtune's enable_activation_checkpointing is around every layer by itself: its "
        "selective kinds are not available yet: set 'recompute' to full or none\n");
  CHECK(refused(", adapter: {ia3: {targets: [k_proj, v_proj, w2], feedforward: [w2]}}") ==
        "torchtune's adapters are LoRA and DoRA: set 'adapter' to lora or dora\n");
  CHECK(refused(", adapter: {dora: {rank: 8, targets: [k_proj], dtype: model}}") ==
        "torchtune's DoRA is available on one GPU: set 'adapter' to lora\n");
  CHECK(refused(", adapter: {lora: {rank: 8, targets: [q_proj], dtype: fp32}}") ==
        "torchtune's LoRA has the model's type: set 'dtype' of the adapter to model\n");
  CHECK(refused(", ema: true")
            .find("torchtune's recipes keep no moving average of the weights: leave 'ema' out\n") !=
        std::string::npos);
}

/// The layers that stay whole where a job's base is quantised.
std::vector<std::string> whole_layers(const std::string& model, const std::string& targets) {
  const Checked<Job> job = read_job(std::make_shared<const SourceText>(SourceText{
      "test.yaml", "model: " + model +
                       "\ntraining: {seq_len: 2048, implementation: torchtune, adapter: {qlora: "
                       "{rank: 8, targets: " +
                       targets + "}}}\nhardware: {gpu: h100-sxm-80gb}\n"}));
  REQUIRE(job.ok());
  CHECK(job.value().model.quantized->format == WeightFormat::torchao_nf4);
  return job.value().model.quantized->skip_modules;
}

TEST_CASE("QLoRA's codes are torchao's, of the layers that the builder quantises") {
  using Names = std::vector<std::string>;
  CHECK(whole_layers("llama-3-8b", "[q_proj]") == Names{"output"});
  CHECK(whole_layers("llama-3.2-1b", "[q_proj, w1]").empty());  // its head is tied
  CHECK(whole_layers("qwen2.5-7b", "[q_proj, v_proj, w1, w2, w3]") ==
        Names{"output", "k_proj", "output_proj"});
  CHECK(whole_layers("qwen2.5-0.5b", "[q_proj, k_proj, v_proj, output_proj, w1, w2]") ==
        Names{"w3"});
}

TEST_CASE("other codes under torchtune are refused, and torchao's elsewhere") {
  const auto messages = [](const std::string& weights, const std::string& implementation) {
    std::string found;
    const Checked<Job> job = read_job(std::make_shared<const SourceText>(SourceText{
        "test.yaml",
        "model: llama-3-8b\ntraining: {seq_len: 2048, precision: bf16, implementation: " +
            implementation +
            ", adapter: {lora: {rank: 8, targets: [q_proj]}}}\ncompression: {quantize: {weights: " +
            weights + "}}\nhardware: {gpu: h100-sxm-80gb}\n"}));
    for (const Diagnostic& diagnostic : job.diagnostics()) {
      found += diagnostic.message + ": " + diagnostic.hint + "\n";
    }
    return found;
  };
  CHECK(messages("torchao-nf4", "torchtune").empty());
  CHECK(messages("nf4", "torchtune") ==
        "torchtune's codes are torchao's NF4 tensors: write 'qlora', or set 'weights' to "
        "torchao-nf4\n");
  CHECK(messages("torchao-nf4, skip_modules: [w1]", "torchtune") ==
        "torchtune's builders say which layers stay whole: leave 'skip_modules' out\n");
  CHECK(messages("torchao-nf4, double_quant: true", "torchtune") ==
        "torchao's scales are quantised in any case: leave 'double_quant' out\n");
  CHECK(messages("torchao-nf4", "transformers") ==
        "quantisation of weights by torchao in other models than torchtune's is not available yet: "
        "use 'weights: nf4', or 'implementation: torchtune', or leave 'quantize' out\n");
  CHECK(refused(", adapter: {qlora: {rank: 8, targets: [q_proj], quant_storage: bf16}}") ==
        "bitsandbytes packs codes of 4 bits alone: leave 'quant_storage' out\n");
  CHECK(
      refused(", adapter: {qlora: {rank: 8, targets: [q_proj]}}",
              "{data: 8, zero: 3, fsdp: {version: 2}, offload: {optimizer: cpu, parameters: cpu}}")
          .find("torchao's NF4 tensors on the host are not available yet: leave 'offload' out\n") !=
      std::string::npos);
}

TEST_CASE("so are ranks that share the model otherwise") {
  CHECK(refused("", "{data: 8, zero: 3, fsdp: {version: 2, replicate: 2}}") ==
        "torchtune's distributed recipes shard over all ranks: leave the replicas out\n");
  CHECK(refused("", "{data: 8, zero: 1}") ==
        "torchtune's distributed recipes shard with FSDP2 over all ranks: set 'zero' to 3\n");
  CHECK_FALSE(refused("", "{tensor: 8}").empty());
}

}  // namespace
}  // namespace memest
