// torchtune's YAML (`tune run RECIPE --config FILE`), of 0.6.1: recipes/configs.
#include <algorithm>
#include <array>
#include <string>

#include "reader/foreign/dialects.hpp"
#include "reader/foreign/foreign_import.hpp"
#include "reader/text/scalar.hpp"

namespace memest::torchtune {
namespace {

constexpr std::string_view kComponent = "model._component_";
constexpr std::string_view kLength = "tokenizer.max_seq_len";
constexpr std::string_view kOptimizer = "optimizer._component_";
constexpr std::string_view kFused = "optimizer.fused";
constexpr std::string_view kModules = "model.lora_attn_modules";
constexpr std::string_view kQuantizes = "model.quantize_base";
constexpr std::string_view kMagnitudes = "model.use_dora";
constexpr std::string_view kFeedForward = "model.apply_lora_to_mlp";

struct Builder {
  std::string_view name;   ///< without lora_ or qlora_ before it
  std::string_view model;  ///< a preset, or its sizes
};
/// torchtune/models/*/_model_builders.py.
constexpr Builder kBuilders[] = {
    {"llama2_7b", "llama-2-7b"},
    {"llama2_13b", "llama-2-13b"},
    {"llama2_70b", "llama-2-70b"},
    {"llama3_8b", "llama-3-8b"},
    {"llama3_70b", "llama-3-70b"},
    {"llama3_1_8b", "llama-3.1-8b"},
    {"llama3_1_70b", "llama-3.1-70b"},
    {"llama3_1_405b", "llama-3.1-405b"},
    {"llama3_2_1b", "llama-3.2-1b"},
    {"llama3_2_3b", "llama-3.2-3b"},
    {"llama3_3_70b", "llama-3.1-70b"},
    // Without the window of Mistral's own first release.
    {"mistral_7b",
     "{layers: 32, hidden_size: 4096, heads: 32, kv_heads: 8, ffn_size: 14336, vocab_size: 32000, "
     "max_positions: 32768, activation: swiglu, norm: rmsnorm, position: rope}"},
    {"qwen2_0_5b", "qwen2-0.5b"},
    {"qwen2_1_5b", "qwen2-1.5b"},
    {"qwen2_7b", "qwen2.5-7b"},  // of the same sizes
    {"qwen2_5_0_5b", "qwen2.5-0.5b"},
    {"qwen2_5_1_5b_instruct", "qwen2.5-1.5b"},
    {"qwen2_5_3b", "qwen2.5-3b"},
    {"qwen2_5_7b_instruct", "qwen2.5-7b"},
    {"qwen2_5_14b_base", "qwen2.5-14b"},
    {"qwen2_5_32b_instruct", "qwen2.5-32b"},
    {"qwen2_5_72b_base", "qwen2.5-72b"},
    // For other numbers of positions, of which a table is made.
    {"qwen2_5_1_5b_base",
     "{hf: {model_type: qwen2, vocab_size: 151936, hidden_size: 1536, intermediate_size: 8960, "
     "num_hidden_layers: 28, num_attention_heads: 12, num_key_value_heads: 2, "
     "max_position_embeddings: 131072, tie_word_embeddings: true}}"},
    {"qwen2_5_7b_base",
     "{hf: {model_type: qwen2, vocab_size: 152064, hidden_size: 3584, intermediate_size: "
     "18944, num_hidden_layers: 28, num_attention_heads: 28, num_key_value_heads: 4, "
     "max_position_embeddings: 131072, tie_word_embeddings: false}}"},
    {"qwen2_5_14b_instruct",
     "{hf: {model_type: qwen2, vocab_size: 152064, hidden_size: 5120, intermediate_size: "
     "13824, num_hidden_layers: 48, num_attention_heads: 40, num_key_value_heads: 8, "
     "max_position_embeddings: 32768, tie_word_embeddings: false}}"},
    {"qwen2_5_32b_base",
     "{hf: {model_type: qwen2, vocab_size: 152064, hidden_size: 5120, intermediate_size: "
     "27648, num_hidden_layers: 64, num_attention_heads: 40, num_key_value_heads: 8, "
     "max_position_embeddings: 131072, tie_word_embeddings: false}}"},
    {"qwen2_5_72b_instruct",
     "{hf: {model_type: qwen2, vocab_size: 152064, hidden_size: 8192, intermediate_size: "
     "29568, num_hidden_layers: 80, num_attention_heads: 64, num_key_value_heads: 8, "
     "max_position_embeddings: 32768, tie_word_embeddings: false}}"},
};

/// "qlora_llama3_8b" of "torchtune.models.llama3.qlora_llama3_8b".
std::string component_of(const ForeignImport& file) {
  std::string name = file.text(kComponent);
  return name.erase(0, name.rfind('.') + 1);
}

/// "llama3_8b" of "torchtune.models.llama3.lora_llama3_8b".
std::string builder_of(const ForeignImport& file) {
  const std::string name = component_of(file);
  for (const std::string_view before : {"lora_", "qlora_"}) {
    if (name.starts_with(before)) return name.substr(before.size());
  }
  return name;
}

/// partial(lora_llama3_8b, quantize_base=True), or that argument itself.
bool quantizes_base(const ForeignImport& file) {
  return component_of(file).starts_with("qlora_") || file.flag(kQuantizes);
}

void write_model(ForeignImport& file) {
  const std::string name = builder_of(file);
  const auto* const builder = std::ranges::find(kBuilders, name, &Builder::name);
  if (builder == std::end(kBuilders)) {
    return file.refuse(kComponent, "torchtune's model " + quote(name),
                       "known are Llama's, Mistral's and Qwen2's");
  }
  file.write("model", builder->model, {kComponent});
}

void write_adapter(ForeignImport& file) {
  if (file.find(kModules) == nullptr) return;
  std::string targets;
  for (const Value& item : file.find(kModules)->items) {
    targets += (targets.empty() ? "" : ", ") + item.text;
  }
  if (file.flag(kFeedForward)) targets += ", w1, w2, w3";
  const bool codes = quantizes_base(file);
  const bool dora = file.flag(kMagnitudes);
  const std::string adapter = dora    ? "training.adapter.dora."
                              : codes ? "training.adapter.qlora."
                                      : "training.adapter.lora.";
  if (dora && codes) file.write("compression.quantize.weights", "torchao-nf4", {kQuantizes});
  file.write(adapter + "rank", file.text("model.lora_rank", "8"), {"model.lora_rank"});
  file.write(adapter + "targets", "[" + targets + "]",
             {kModules, kFeedForward, kQuantizes, kMagnitudes});
  file.write(adapter + "dropout", file.text("model.lora_dropout", "0.0"), {"model.lora_dropout"});
  file.write(adapter + "dtype", "model", {"dtype"});
}

void write_length(ForeignImport& file) {
  if (file.find(kLength) != nullptr) {
    return file.write("training.seq_len", file.text(kLength), {kLength});
  }
  file.note("no key says how long the sequences are",
            "set tokenizer.max_seq_len, or --set training.seq_len=N to the longest ones");
}

struct OptimizerClass {
  std::string_view foreign;
  std::string_view own;
};
constexpr OptimizerClass kOptimizers[] = {
    {"torch.optim.AdamW", "adamw"},
    {"torch.optim.SGD", "sgd"},
    {"bitsandbytes.optim.AdamW8bit", "adamw-8bit"},
    {"bitsandbytes.optim.PagedAdamW", "paged-adamw"},
    {"bitsandbytes.optim.PagedAdamW8bit", "paged-adamw-8bit"},
};

void write_optimizer(ForeignImport& file) {
  const std::string name = file.text(kOptimizer);
  const auto* const known = std::ranges::find(kOptimizers, name, &OptimizerClass::foreign);
  if (known == std::end(kOptimizers)) {
    return file.refuse(kOptimizer, "the optimizer " + quote(name),
                       "known are PyTorch's AdamW and SGD, and bitsandbytes' AdamW");
  }
  file.write("training.optimizer.name", known->own, {kOptimizer});
  // torch/optim/adamw.py: neither is foreach, fused False is the loop.
  if (known->own == "adamw") {
    const bool written = file.find(kFused) != nullptr;
    const char* const loop = written ? "for-loop" : "foreach";
    file.write("training.optimizer.implementation", file.flag(kFused) ? "fused" : loop, {kFused});
  }
}

constexpr WordPair kTypes[] = {{"bf16", "bf16"}, {"fp32", "fp32"}};
constexpr WordPair kLosses[] = {
    {"torchtune.modules.loss.CEWithChunkedOutputLoss", "chunked"},
    {"torch.nn.CrossEntropyLoss", "upcast"},
};
constexpr WordPair kFlags[] = {{"true", "true"}, {"false", "false"}};
constexpr WordPair kCheckpoints[] = {{"true", "full"}, {"false", "none"}};

/// The distributed recipes' files have keys that the others lack; how many ranks there are is told
/// to `tune run`.
void write_ranks(ForeignImport& file) {
  constexpr std::string_view kOffload = "fsdp_cpu_offload";
  if (file.find(kOffload) == nullptr && file.find("custom_sharded_layers") == nullptr) return;
  file.write("parallelism.zero", "3", {kOffload});
  file.write("parallelism.fsdp.version", "2", {kOffload});
  if (!file.flag(kOffload)) return file.drop(kOffload, "it is off");
  file.write("parallelism.offload.optimizer", "cpu", {kOffload});
  file.write("parallelism.offload.parameters", "cpu", {kOffload});
}

void write_clipping(ForeignImport& file) {
  constexpr std::string_view kNorm = "clip_grad_norm";
  if (file.find(kNorm) != nullptr) file.write("training.clip_gradients", "true", {kNorm});
}

void write_job(ForeignImport& file) {
  file.write("training.implementation.name", "torchtune", {kComponent});
  write_model(file);
  write_length(file);
  write_adapter(file);
  write_optimizer(file);
  write_clipping(file);
  write_ranks(file);
}

constexpr KeyRow kMapped[] = {
    maps("batch_size", "training.micro_batch"),
    maps("gradient_accumulation_steps", "training.gradient_accumulation"),
    maps("dtype", "training.precision", kTypes),
    maps("loss._component_", "training.implementation.loss", kLosses),
    maps("enable_activation_checkpointing", "training.recompute", kCheckpoints),
    maps("optimizer_in_bwd", "training.optimizer.in_backward", kFlags),
};
constexpr std::string_view kDecidingKeys[] = {kComponent,
                                              kLength,
                                              kModules,
                                              kFeedForward,
                                              kMagnitudes,
                                              kQuantizes,
                                              "model.lora_rank",
                                              kOptimizer,
                                              "model.lora_dropout",
                                              kFused,
                                              "clip_grad_norm",
                                              "fsdp_cpu_offload",
                                              "custom_sharded_layers"};
constexpr auto kDeciding = all_derived(kDecidingKeys);
constexpr KeyRow kRefusedKeys[] = {
    refused_key("compile", "false|null", "torch.compile under torchtune"),
    refused_key("teacher_model._component_", "null", "distillation under torchtune"),
    refused_key("quantizer._component_", "null", "quantisation-aware training under torchtune"),
    refused_key("enable_activation_offloading", "false|null", "activations on the host"),
    refused_key("model.apply_lora_to_output", "false|null", "LoRA of torchtune's output head"),
    refused_key("ac_mode", "null", "torchtune's selective checkpoints"),
    refused_key("tensor_parallel_dim", "1|null", "torchtune's tensor parallelism"),
    refused_key("fsdp_reshard_after_forward", "true|null", "weights that stay gathered"),
};
constexpr KeyRow kIdle[] = {
    no_effect("model.lora_alpha", "a factor"),
    no_effect("optimizer.*", kAboutSchedule),
    no_effect("loss.*", "how many parts the logits are cut into: eight"),
    no_effect("lr_scheduler.*", kAboutSchedule),
    no_effect("epochs", kAboutSchedule),
    no_effect("max_steps_per_epoch", kAboutSchedule),
    no_effect("dataset.*", kAboutData),
    no_effect("dataset_val.*", kAboutEvaluation),
    no_effect("shuffle", kAboutData),
    no_effect("collate_fn", kAboutData),
    no_effect("tokenizer.*", kAboutData),
    no_effect("seed", kAboutSeeds),
    no_effect("checkpointer.*", kAboutCheckpoints),
    no_effect("resume_from_checkpoint", kAboutCheckpoints),
    no_effect("low_cpu_ram", kAboutCheckpoints),
    no_effect("save_adapter_weights_only", kAboutCheckpoints),
    no_effect("output_dir", kAboutPaths),
    no_effect("metric_logger.*", kAboutLogging),
    no_effect("log_every_n_steps", kAboutLogging),
    no_effect("log_peak_memory_stats", kAboutLogging),
    no_effect("log_level", kAboutLogging),
    no_effect("profiler.*", kAboutLogging),
    no_effect("device", kAboutRun),
    no_effect("cudnn_deterministic_mode", kAboutRun),
    no_effect("ac_option", "selective checkpoints, which are off"),
};
constexpr std::span<const KeyRow> kTables[] = {kMapped, kDeciding, kRefusedKeys, kIdle};
constexpr std::string_view kByComponent[] = {kComponent, "batch_size", "loss._component_"};
constexpr TellingKeys kTelling[] = {kByComponent};
constexpr Derivation kDerivations[] = {write_job};
constexpr Dialect kDialect = {.name = "torchtune",
                              .noun = "a torchtune config",
                              .telling = kTelling,
                              .tables = kTables,
                              .derivations = kDerivations};

}  // namespace
}  // namespace memest::torchtune

const memest::Dialect& memest::torchtune_dialect() { return torchtune::kDialect; }
