#include "reader/keys/foreign.hpp"

#include <algorithm>
#include <span>
#include <string>

#include "reader/keys/keys.hpp"

namespace memest {
namespace {

constexpr std::string_view kNoEffect = "it changes neither memory nor time: leave it out";
constexpr std::string_view kBf16 =
    "write precision: amp-bf16, autocast over fp32 weights; bf16 has the weights in it too";
constexpr std::string_view kFp16 = "write precision: amp-fp16";
constexpr std::string_view kCompile = "write implementation: {name: transformers, compile: blocks}";
constexpr std::string_view kLiger = "write implementation: {name: transformers, liger: true}";
constexpr std::string_view kAttention =
    "write implementation: {name: transformers, attention: sdpa}; flash-2 and eager are others";
constexpr std::string_view kFullRecompute = "write recompute: full";
constexpr std::string_view kCpuOffloading =
    "write offload_activations: {method: cpu_offloading, layers: 8}";
constexpr std::string_view kSaveOnCpu = "write offload_activations: save_on_cpu";
constexpr std::string_view kSaveOnPinned =
    "write offload_activations: {method: save_on_cpu, pin_memory: true}";
constexpr std::string_view kZero = "write parallelism: {data: N, zero: 2}, with its stage";
constexpr std::string_view kQuantized =
    "write compression: {quantize: {weights: nf4}}; adapters over such weights are adapter: "
    "{qlora: ...}";
constexpr std::string_view kConfig =
    "model: {hf: config.json} reads a Hugging Face config with its own names";
constexpr std::string_view kLinearModules =
    "name the modules, as in Llama: [q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, "
    "down_proj]";

// TrainingArguments of transformers and trl, peft's LoraConfig, DeepSpeed's JSON, accelerate's
// YAML, torchtitan's TOML, Megatron's flags, nanoGPT's train.py, and the keys of config.json.
constexpr ForeignWord kWords[] = {
    // The batch and its sequences.
    {"per_device_train_batch_size", "did you mean 'micro_batch'?"},
    {"per_device_batch_size", "did you mean 'micro_batch'?"},
    {"train_micro_batch_size_per_gpu", "did you mean 'micro_batch'?"},
    {"micro_batch_size", "did you mean 'micro_batch'?"},
    {"local_batch_size", "did you mean 'micro_batch'?"},
    {"mbs", "did you mean 'micro_batch'?"},
    {"train_batch_size", "did you mean 'global_batch'?"},
    {"global_batch_size", "did you mean 'global_batch'?"},
    {"gbs", "did you mean 'global_batch'?"},
    {"batch_size",
     "'micro_batch' is what a GPU takes at once, 'global_batch' a step over all GPUs"},
    {"gradient_accumulation_steps", "did you mean 'gradient_accumulation'?"},
    {"grad_accum", "did you mean 'gradient_accumulation'?"},
    {"max_seq_length", "did you mean 'seq_len'?"},
    {"max_seq_len", "did you mean 'seq_len'?"},
    {"max_length", "did you mean 'seq_len'?"},
    {"sequence_length", "did you mean 'seq_len'?"},
    {"seq_length", "did you mean 'seq_len'?"},
    {"cutoff_len", "did you mean 'seq_len'?"},
    {"block_size", "did you mean 'seq_len'?"},
    {"context_length", "did you mean 'seq_len'?"},
    // Types.
    {"bf16", kBf16},
    {"fp16", kFp16},
    {"half", kFp16},
    {"mixed_precision", kBf16},
    {"dtype", kBf16},
    {"torch_dtype", kBf16},
    {"load_in_4bit", kQuantized},
    {"load_in_8bit", kQuantized},
    {"quantization_config", kQuantized},
    {"bfloat16", "bf16 has weights and states in it, amp-bf16 is autocast over fp32 weights",
     "precision"},
    {"torch.bfloat16", "bf16 has weights and states in it, amp-bf16 is autocast over fp32 weights",
     "precision"},
    {"bf16_mixed", "did you mean 'amp-bf16'?", "precision"},
    {"bf16_true", "did you mean 'bf16'?", "precision"},
    {"16_mixed", "did you mean 'amp-fp16'?", "precision"},
    {"amp", "amp-bf16 or amp-fp16", "precision"},
    {"float16", "fp16 has weights and states in it, amp-fp16 is autocast over fp32 weights",
     "precision"},
    {"half", "fp16 has weights and states in it, amp-fp16 is autocast over fp32 weights",
     "precision"},
    {"float32", "did you mean 'fp32'?", "precision"},
    {"float", "did you mean 'fp32'?", "precision"},
    {"32_true", "did you mean 'fp32'?", "precision"},
    {"tf32", "did you mean 'fp32'?", "precision"},
    // Recompute.
    {"gradient_checkpointing", kFullRecompute},
    {"gradient_checkpointing_enable", kFullRecompute},
    {"activation_checkpointing", kFullRecompute},
    {"activation_checkpoint", "write recompute: full, or recompute: selective"},
    {"recompute_granularity", "write recompute: full, or recompute: selective"},
    {"gradient_checkpointing_kwargs", "write recompute: {full: {reentrant: true}}"},
    {"offloaded", kSaveOnCpu, "recompute"},
    {"offload", kSaveOnCpu, "recompute"},
    {"save_on_cpu", kSaveOnCpu},
    {"cpu_offloading_num_layers", kCpuOffloading},
    {"cpu_offloading", kCpuOffloading},
    {"save_on_cpu", kSaveOnCpu, "recompute"},
    {"activation_offloading",
     "OffloadActivations of trl is not available yet; PyTorch has offload_activations: "
     "save_on_cpu"},
    {"enable_activation_offloading",
     "OffloadActivations of torchtune is not available yet; PyTorch has offload_activations: "
     "save_on_cpu"},
    {"true", kSaveOnCpu, "offload_activations"},
    {"pinned", kSaveOnPinned, "offload_activations"},
    {"true", kFullRecompute, "recompute"},
    {"on", kFullRecompute, "recompute"},
    {"unsloth", kFullRecompute, "recompute"},
    {"false", "write recompute: none", "recompute"},
    {"off", "write recompute: none", "recompute"},
    // Optimizers.
    {"optim", "did you mean 'optimizer'?"},
    {"adamw_torch", "did you mean 'adamw'?", "optimizer"},
    {"adamw_hf", "did you mean 'adamw'?", "optimizer"},
    {"adamw_mode", "did you mean 'adamw'?", "optimizer"},
    {"torch.optim.adamw", "did you mean 'adamw'?", "optimizer"},
    {"adamw_torch_fused", "write {name: adamw, implementation: fused}", "optimizer"},
    {"fusedadam", "write {name: adamw, implementation: fused}", "optimizer"},
    {"adamw_bnb_8bit", "did you mean 'adamw-8bit'?", "optimizer"},
    {"adamw8bit", "did you mean 'adamw-8bit'?", "optimizer"},
    {"pagedadamw8bit", "did you mean 'paged-adamw-8bit'?", "optimizer"},
    {"learning_rate", kNoEffect},
    {"lr", kNoEffect},
    {"weight_decay", kNoEffect},
    {"warmup_steps", kNoEffect},
    {"warmup_ratio", kNoEffect},
    {"lr_scheduler_type", kNoEffect},
    {"num_train_epochs", kNoEffect},
    {"max_steps", kNoEffect},
    {"seed", kNoEffect},
    {"max_grad_norm", "write clip_gradients: true"},
    {"gradient_clipping", "write clip_gradients: true"},
    {"clip_grad", "write clip_gradients: true"},
    // Whose kernels.
    {"torch_compile", kCompile},
    {"compile", kCompile},
    {"use_liger_kernel", kLiger},
    {"liger_kernel", kLiger},
    {"attn_implementation", kAttention},
    {"use_flash_attention_2", kAttention},
    {"flash_attention", kAttention},
    {"flash_attention_2", "did you mean 'flash-2'?", "attention"},
    {"flash", "sdpa-flash is the one in PyTorch, flash-2 the package flash-attn", "attention"},
    {"hf", "did you mean 'transformers'?", "implementation"},
    {"huggingface", "did you mean 'transformers'?", "implementation"},
    {"trainer", "write {name: transformers, loop: trainer}", "implementation"},
    {"accelerate", "write {name: transformers, loop: trainer}", "implementation"},
    {"deepspeed", "leave it out: its ZeRO is parallelism: {data: N, zero: 2}", "implementation"},
    {"megatron_lm", "did you mean 'megatron'?", "implementation"},
    {"megatron_core", "did you mean 'megatron'?", "implementation"},
    {"mcore", "did you mean 'megatron'?", "implementation"},
    // Ranks.
    {"zero_stage", kZero},
    {"zero_optimization", kZero},
    {"data_parallel_size", "did you mean 'data'?"},
    {"dp", "did you mean 'data'?"},
    {"tensor_parallel_size", "did you mean 'tensor'?"},
    {"tensor_model_parallel_size", "did you mean 'tensor'?"},
    {"tensor_parallel_degree", "did you mean 'tensor'?"},
    {"tp", "did you mean 'tensor'?"},
    {"pipeline_parallel_size", "did you mean 'pipeline'?"},
    {"pipeline_model_parallel_size", "did you mean 'pipeline'?"},
    {"pipeline_parallel_degree", "did you mean 'pipeline'?"},
    {"pp", "did you mean 'pipeline'?"},
    {"context_parallel_size", "did you mean 'context'?"},
    {"context_parallel_degree", "did you mean 'context'?"},
    {"cp", "did you mean 'context'?"},
    {"expert_model_parallel_size", "did you mean 'expert'?"},
    {"expert_parallel_degree", "did you mean 'expert'?"},
    {"ep", "did you mean 'expert'?"},
    {"sequence_parallel", "did you mean 'sequence'?"},
    {"use_distributed_optimizer", "did you mean 'distributed_optimizer'?"},
    {"num_gpus", "did you mean 'count'?"},
    {"n_gpus", "did you mean 'count'?"},
    {"world_size", "'hardware.count' is the number of GPUs"},
    // The model's sizes.
    {"num_hidden_layers", "did you mean 'layers'?"},
    {"num_layers", "did you mean 'layers'?"},
    {"n_layers", "did you mean 'layers'?"},
    {"n_layer", "did you mean 'layers'?"},
    {"num_attention_heads", "did you mean 'heads'?"},
    {"n_heads", "did you mean 'heads'?"},
    {"n_head", "did you mean 'heads'?"},
    {"num_key_value_heads", "did you mean 'kv_heads'?"},
    {"num_query_groups", "did you mean 'kv_heads'?"},
    {"n_kv_heads", "did you mean 'kv_heads'?"},
    {"n_embd", "did you mean 'hidden_size'?"},
    {"d_model", "did you mean 'hidden_size'?"},
    {"hidden_dim", "did you mean 'hidden_size'?"},
    {"dim", "did you mean 'hidden_size'?"},
    {"intermediate_size", "did you mean 'ffn_size'?"},
    {"ffn_hidden_size", "did you mean 'ffn_size'?"},
    {"ffn_dim", "did you mean 'ffn_size'?"},
    {"d_ff", "did you mean 'ffn_size'?"},
    {"n_inner", "did you mean 'ffn_size'?"},
    {"max_position_embeddings", "did you mean 'max_positions'?"},
    {"n_positions", "did you mean 'max_positions'?"},
    {"tie_word_embeddings", "did you mean 'tied_embeddings'?"},
    {"hidden_act", "did you mean 'activation'?"},
    {"num_experts", "write moe: {experts: N, top_k: K}"},
    {"num_local_experts", "write moe: {experts: N, top_k: K}"},
    {"rope_theta", kNoEffect},
    {"rms_norm_eps", kNoEffect},
    {"layer_norm_eps", kNoEffect},
    {"initializer_range", kNoEffect},
    {"model_type", kConfig},
    {"architectures", kConfig},
    {"gelu_new", "did you mean 'gelu-tanh'?", "activation"},
    {"gelu_pytorch_tanh", "did you mean 'gelu-tanh'?", "activation"},
    // Adapters.
    {"lora", "write adapter: {lora: {rank: 16, targets: [q_proj, v_proj]}}"},
    {"peft_config", "write adapter: {lora: {rank: 16, targets: [q_proj, v_proj]}}"},
    {"r", "did you mean 'rank'?"},
    {"lora_r", "did you mean 'rank'?"},
    {"lora_rank", "did you mean 'rank'?"},
    {"alpha", kNoEffect},
    {"lora_alpha", kNoEffect},
    {"use_rslora", kNoEffect},
    {"task_type", kNoEffect},
    {"lora_dropout", "did you mean 'dropout'?"},
    {"target_modules", "did you mean 'targets'?"},
    {"lora_target_modules", "did you mean 'targets'?"},
    {"all_linear", kLinearModules, "targets"},
    {"all", kLinearModules, "targets"},
    {"auto", "`memest plan` searches it: leave it out", "micro_batch"},
    {"auto", "leave it out: it follows from 'global_batch'", "gradient_accumulation"},
};

constexpr ForeignDocument kDocuments[] = {
    {"peft_type", "a peft adapter's config",
     "in a spec it is training.adapter: {lora: {rank: 16, targets: [q_proj, v_proj]}}"},
    {"architectures", "a Hugging Face config without 'model_type'",
     "'model_type' says which family the keys belong to: llama, gpt2, ..."},
};

std::string folded(std::string_view word) {
  std::string result(word);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return result;
}

/// The name in {name: ...} stands for the value of the key around it.
bool is_value_of(const ForeignWord& row, std::string_view key) {
  return row.of == key || (key == "name" && (row.of == "optimizer" || row.of == "implementation"));
}

template <class Matches>
std::string_view hint_where(std::string_view word, Matches matches) {
  constexpr std::size_t kLongest = 64;
  if (word.size() > kLongest) return {};
  const std::string text = folded(word);
  const auto* row = std::find_if(
      std::begin(kWords), std::end(kWords),
      [&](const ForeignWord& candidate) { return candidate.word == text && matches(candidate); });
  return row == std::end(kWords) ? std::string_view() : row->hint;
}

bool is_key_of(std::span<const Key> keys, std::string_view word) {
  return std::any_of(keys.begin(), keys.end(), [word](const Key& key) { return key.name == word; });
}

}  // namespace

std::span<const ForeignWord> foreign_words() { return kWords; }

std::string_view hint_of_foreign_key(std::string_view word) {
  return hint_where(word, [](const ForeignWord& row) { return row.of.empty(); });
}

std::string_view hint_of_foreign_value(std::string_view key, std::string_view word) {
  return hint_where(word, [key](const ForeignWord& row) { return is_value_of(row, key); });
}

const ForeignDocument* find_foreign_document(const Value& root) {
  for (const Member& member : root.members) {
    if (is_key_of(spec_keys(), member.key)) return nullptr;
  }
  const auto* document =
      std::find_if(std::begin(kDocuments), std::end(kDocuments),
                   [&root](const ForeignDocument& d) { return root.find(d.key) != nullptr; });
  return document == std::end(kDocuments) ? nullptr : document;
}

std::string hint_of_section(std::string_view word) {
  std::string sections;
  for (const Key& section : spec_keys()) {
    const bool has =
        std::any_of(section.shapes.begin(), section.shapes.end(), [word](const KeyShape& shape) {
          return shape.form == Form::table && is_key_of(shape.keys, word);
        });
    if (has) sections += (sections.empty() ? "'" : " or '") + std::string(section.name) + "'";
  }
  return sections.empty() ? std::string() : "it belongs in " + sections;
}

}  // namespace memest
