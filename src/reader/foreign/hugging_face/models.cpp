// Models by their names on the Hugging Face Hub.
#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "reader/foreign/hugging_face/hugging_face.hpp"
#include "reader/text/embedded_trees.hpp"
#include "reader/text/scalar.hpp"

namespace memest::hugging_face {
namespace {

struct HubModel {
  std::string_view hub;
  std::string_view preset;
};

/// Whose config.json has the sizes of a preset: its own, trained further, or copied.
constexpr HubModel kModels[] = {
    {"allenai/OLMo-2-0425-1B", "olmo-2-1b"},
    {"allenai/OLMo-2-1124-13B", "olmo-2-13b"},
    {"allenai/OLMo-2-1124-7B", "olmo-2-7b"},
    {"answerdotai/ModernBERT-base", "modernbert-base"},
    {"bigcode/starcoder2-3b", "starcoder2-3b"},
    {"bigscience/bloom", "bloom-176b"},
    {"bigscience/bloom-1b1", "bloom-1b1"},
    {"bigscience/bloom-1b7", "bloom-1b7"},
    {"bigscience/bloom-3b", "bloom-3b"},
    {"bigscience/bloom-560m", "bloom-560m"},
    {"bigscience/bloom-7b1", "bloom-7b1"},
    {"deepseek-ai/DeepSeek-V2-Lite", "deepseek-v2-lite"},
    {"deepseek-ai/DeepSeek-V3", "deepseek-v3"},
    {"deepseek-ai/DeepSeek-V3-Base", "deepseek-v3"},
    {"EleutherAI/gpt-j-6b", "gpt-j-6b"},
    {"EleutherAI/gpt-neox-20b", "gpt-neox-20b"},
    {"EleutherAI/pythia-1.4b", "pythia-1.4b"},
    {"EleutherAI/pythia-1.4b-deduped", "pythia-1.4b"},
    {"EleutherAI/pythia-12b", "pythia-12b"},
    {"EleutherAI/pythia-12b-deduped", "pythia-12b"},
    {"EleutherAI/pythia-160m", "pythia-160m"},
    {"EleutherAI/pythia-160m-deduped", "pythia-160m"},
    {"EleutherAI/pythia-1b", "pythia-1b"},
    {"EleutherAI/pythia-1b-deduped", "pythia-1b"},
    {"EleutherAI/pythia-2.8b", "pythia-2.8b"},
    {"EleutherAI/pythia-2.8b-deduped", "pythia-2.8b"},
    {"EleutherAI/pythia-410m", "pythia-410m"},
    {"EleutherAI/pythia-410m-deduped", "pythia-410m"},
    {"EleutherAI/pythia-6.9b", "pythia-6.9b"},
    {"EleutherAI/pythia-6.9b-deduped", "pythia-6.9b"},
    {"EleutherAI/pythia-70m", "pythia-70m"},
    {"EleutherAI/pythia-70m-deduped", "pythia-70m"},
    {"facebook/opt-1.3b", "opt-1.3b"},
    {"facebook/opt-125m", "opt-125m"},
    {"facebook/opt-13b", "opt-13b"},
    {"facebook/opt-2.7b", "opt-2.7b"},
    {"facebook/opt-30b", "opt-30b"},
    {"facebook/opt-350m", "opt-350m"},
    {"facebook/opt-6.7b", "opt-6.7b"},
    {"facebook/opt-66b", "opt-66b"},
    {"FacebookAI/roberta-base", "roberta-base"},
    {"google-bert/bert-base-uncased", "bert-base"},
    {"google-bert/bert-large-uncased", "bert-large"},
    {"google-t5/t5-base", "t5-base"},
    {"google-t5/t5-large", "t5-large"},
    {"google-t5/t5-small", "t5-small"},
    {"google/gemma-2-27b", "gemma-2-27b"},
    {"google/gemma-2-27b-it", "gemma-2-27b"},
    {"google/gemma-2-2b", "gemma-2-2b"},
    {"google/gemma-2-2b-it", "gemma-2-2b"},
    {"google/gemma-2-9b", "gemma-2-9b"},
    {"google/gemma-2-9b-it", "gemma-2-9b"},
    {"google/gemma-2b", "gemma-2b"},
    {"google/gemma-2b-it", "gemma-2b"},
    {"google/gemma-3-1b-it", "gemma-3-1b"},
    {"google/gemma-3-1b-pt", "gemma-3-1b"},
    {"google/gemma-3-270m", "gemma-3-270m"},
    {"google/gemma-3-270m-it", "gemma-3-270m"},
    {"google/gemma-7b", "gemma-7b"},
    {"google/gemma-7b-it", "gemma-7b"},
    {"google/vit-base-patch16-224", "vit-base"},
    {"gpt2", "gpt2"},
    {"gpt2-large", "gpt2-large"},
    {"gpt2-medium", "gpt2-medium"},
    {"gpt2-xl", "gpt2-xl"},
    {"HuggingFaceTB/SmolLM2-1.7B", "smollm2-1.7b"},
    {"HuggingFaceTB/SmolLM2-1.7B-Instruct", "smollm2-1.7b"},
    {"HuggingFaceTB/SmolLM2-135M", "smollm2-135m"},
    {"HuggingFaceTB/SmolLM2-135M-Instruct", "smollm2-135m"},
    {"HuggingFaceTB/SmolLM2-360M", "smollm2-360m"},
    {"HuggingFaceTB/SmolLM2-360M-Instruct", "smollm2-360m"},
    {"HuggingFaceTB/SmolLM3-3B", "smollm3-3b"},
    {"HuggingFaceTB/SmolLM3-3B-Base", "smollm3-3b"},
    {"meta-llama/Llama-2-13b-chat-hf", "llama-2-13b"},
    {"meta-llama/Llama-2-13b-hf", "llama-2-13b"},
    {"meta-llama/Llama-2-70b-chat-hf", "llama-2-70b"},
    {"meta-llama/Llama-2-70b-hf", "llama-2-70b"},
    {"meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"},
    {"meta-llama/Llama-2-7b-hf", "llama-2-7b"},
    {"meta-llama/Llama-3.1-405B", "llama-3.1-405b"},
    {"meta-llama/Llama-3.1-70B", "llama-3.1-70b"},
    {"meta-llama/Llama-3.1-70B-Instruct", "llama-3.1-70b"},
    {"meta-llama/Llama-3.1-8B", "llama-3.1-8b"},
    {"meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"},
    {"meta-llama/Llama-3.2-1B", "llama-3.2-1b"},
    {"meta-llama/Llama-3.2-1B-Instruct", "llama-3.2-1b"},
    {"meta-llama/Llama-3.2-3B", "llama-3.2-3b"},
    {"meta-llama/Llama-3.2-3B-Instruct", "llama-3.2-3b"},
    {"meta-llama/Llama-3.3-70B-Instruct", "llama-3.1-70b"},
    {"meta-llama/Meta-Llama-3-70B", "llama-3-70b"},
    {"meta-llama/Meta-Llama-3-70B-Instruct", "llama-3-70b"},
    {"meta-llama/Meta-Llama-3-8B", "llama-3-8b"},
    {"meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"},
    {"meta-llama/Meta-Llama-3.1-70B", "llama-3.1-70b"},
    {"meta-llama/Meta-Llama-3.1-70B-Instruct", "llama-3.1-70b"},
    {"meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b"},
    {"meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"},
    {"microsoft/phi-1_5", "phi-1.5"},
    {"microsoft/phi-2", "phi-2"},
    {"microsoft/Phi-3-mini-4k-instruct", "phi-3-mini-4k"},
    {"microsoft/phi-4", "phi-4"},
    {"mistralai/Mistral-7B-Instruct-v0.1", "mistral-7b-v0.1"},
    {"mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"},
    {"mistralai/Mistral-7B-v0.1", "mistral-7b-v0.1"},
    {"mistralai/Mistral-7B-v0.3", "mistral-7b-v0.3"},
    {"mistralai/Mistral-Nemo-Base-2407", "mistral-nemo-12b"},
    {"mistralai/Mistral-Nemo-Instruct-2407", "mistral-nemo-12b"},
    {"mistralai/Mixtral-8x22B-Instruct-v0.1", "mixtral-8x22b"},
    {"mistralai/Mixtral-8x22B-v0.1", "mixtral-8x22b"},
    {"mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"},
    {"mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"},
    {"NousResearch/Llama-2-13b-hf", "llama-2-13b"},
    {"NousResearch/Llama-2-70b-hf", "llama-2-70b"},
    {"NousResearch/Llama-2-7b-hf", "llama-2-7b"},
    {"NousResearch/Llama-3.2-1B", "llama-3.2-1b"},
    {"NousResearch/Meta-Llama-3-8B", "llama-3-8b"},
    {"NousResearch/Meta-Llama-3-8B-Instruct", "llama-3-8b"},
    {"NousResearch/Meta-Llama-3.1-8B", "llama-3.1-8b"},
    {"openai-community/gpt2", "gpt2"},
    {"openai-community/gpt2-large", "gpt2-large"},
    {"openai-community/gpt2-medium", "gpt2-medium"},
    {"openai-community/gpt2-xl", "gpt2-xl"},
    {"openai/gpt-oss-120b", "gpt-oss-120b"},
    {"openai/gpt-oss-20b", "gpt-oss-20b"},
    {"Qwen/Qwen2-0.5B", "qwen2-0.5b"},
    {"Qwen/Qwen2-0.5B-Instruct", "qwen2-0.5b"},
    {"Qwen/Qwen2-1.5B", "qwen2-1.5b"},
    {"Qwen/Qwen2-1.5B-Instruct", "qwen2-1.5b"},
    {"Qwen/Qwen2.5-0.5B", "qwen2.5-0.5b"},
    {"Qwen/Qwen2.5-0.5B-Instruct", "qwen2.5-0.5b"},
    {"Qwen/Qwen2.5-1.5B", "qwen2.5-1.5b"},
    {"Qwen/Qwen2.5-1.5B-Instruct", "qwen2.5-1.5b"},
    {"Qwen/Qwen2.5-14B", "qwen2.5-14b"},
    {"Qwen/Qwen2.5-14B-Instruct", "qwen2.5-14b"},
    {"Qwen/Qwen2.5-32B", "qwen2.5-32b"},
    {"Qwen/Qwen2.5-32B-Instruct", "qwen2.5-32b"},
    {"Qwen/Qwen2.5-3B", "qwen2.5-3b"},
    {"Qwen/Qwen2.5-3B-Instruct", "qwen2.5-3b"},
    {"Qwen/Qwen2.5-72B", "qwen2.5-72b"},
    {"Qwen/Qwen2.5-72B-Instruct", "qwen2.5-72b"},
    {"Qwen/Qwen2.5-7B", "qwen2.5-7b"},
    {"Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"},
    {"Qwen/Qwen3-0.6B", "qwen3-0.6b"},
    {"Qwen/Qwen3-0.6B-Base", "qwen3-0.6b"},
    {"Qwen/Qwen3-1.7B", "qwen3-1.7b"},
    {"Qwen/Qwen3-1.7B-Base", "qwen3-1.7b"},
    {"Qwen/Qwen3-14B", "qwen3-14b"},
    {"Qwen/Qwen3-14B-Base", "qwen3-14b"},
    {"Qwen/Qwen3-235B-A22B", "qwen3-235b-a22b"},
    {"Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"},
    {"Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"},
    {"Qwen/Qwen3-32B", "qwen3-32b"},
    {"Qwen/Qwen3-4B", "qwen3-4b"},
    {"Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b"},
    {"Qwen/Qwen3-4B-Thinking-2507", "qwen3-4b"},
    {"Qwen/Qwen3-4B-Base", "qwen3-4b"},
    {"Qwen/Qwen3-8B", "qwen3-8b"},
    {"Qwen/Qwen3-8B-Base", "qwen3-8b"},
    {"tiiuae/falcon-180B", "falcon-180b"},
    {"tiiuae/falcon-40b", "falcon-40b"},
    {"tiiuae/falcon-7b", "falcon-7b"},
    {"TinyLlama/TinyLlama-1.1B-Chat-v1.0", "tinyllama-1.1b"},
    {"TinyLlama/TinyLlama-1.1B-intermediate-step-1431k-3T", "tinyllama-1.1b"},
    {"TinyLlama/TinyLlama_v1.1", "tinyllama-1.1b"},
};

/// The linear layers of a block, and those that peft adapts where no target is written
/// (TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING).
struct LinearLayers {
  std::string_view model_type;
  std::string_view all;
  std::string_view usual;
};
constexpr std::string_view kLlamaLike =
    "[q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj]";
constexpr std::string_view kQueryAndValue = "[q_proj, v_proj]";
constexpr std::string_view kFused = "[query_key_value, dense, dense_h_to_4h, dense_4h_to_h]";
constexpr LinearLayers kLinearLayers[] = {
    {"llama", kLlamaLike, kQueryAndValue},
    {"mistral", kLlamaLike, kQueryAndValue},
    {"qwen2", kLlamaLike, kQueryAndValue},
    {"qwen3", kLlamaLike, kQueryAndValue},
    {"gemma", kLlamaLike, kQueryAndValue},
    {"gemma2", kLlamaLike, kQueryAndValue},
    {"gemma3_text", kLlamaLike, kQueryAndValue},
    {"smollm3", kLlamaLike, ""},
    {"olmo2", kLlamaLike, ""},
    {"phi", "[q_proj, k_proj, v_proj, dense, fc1, fc2]", "[q_proj, v_proj, fc1, fc2]"},
    {"phi3", "[qkv_proj, o_proj, gate_up_proj, down_proj]", ""},
    {"gpt2", "[c_attn, c_proj, c_fc]", "[c_attn]"},
    {"opt", "[q_proj, k_proj, v_proj, out_proj, fc1, fc2]", kQueryAndValue},
    {"gpt_neox", kFused, "[query_key_value]"},
    {"falcon", kFused, "[query_key_value]"},
    {"bloom", kFused, "[query_key_value]"},
};

const HubModel* find_model(std::string_view name) {
  const auto* const found = std::ranges::find_if(
      kModels, [name](const HubModel& row) { return is_same_word(row.hub, name); });
  return found == std::end(kModels) ? nullptr : found;
}

std::string type_of_preset(std::string_view preset) {
  const EmbeddedFile* file = find_embedded("models/" + std::string(preset) + ".yaml");
  if (file == nullptr) return {};
  const Value root = embedded_value(*file, std::string(preset));
  return as_text(find_path(root, "model.hf.model_type")).value_or("");
}

}  // namespace

std::string type_of_model(const ForeignImport& file, std::string_view name) {
  if (file.find("config.model_type") != nullptr) return file.text("config.model_type");
  const HubModel* row = find_model(name);
  return row == nullptr ? std::string() : type_of_preset(row->preset);
}

void write_hub_model(ForeignImport& file, std::string_view key) {
  write_named_model(file, key, file.text(key));
}

void write_named_model(ForeignImport& file, std::string_view key, const std::string& name) {
  if (file.find("config") != nullptr) {
    write_config(file);
    return file.credit(key, "model.hf");
  }
  if (file.find(key) == nullptr) return;
  if (const HubModel* row = find_model(name)) return file.write("model", row->preset, {key});
  file.pass_over(key, "memest knows no sizes of " + quote(name) +
                          ": put its config.json beside this file, memest import config.json FILE");
}

std::optional<std::string> linear_layers(const ForeignImport& file, std::string_view model,
                                         bool all) {
  const std::string type = type_of_model(file, file.text(model));
  const auto* const row = std::ranges::find(kLinearLayers, type, &LinearLayers::model_type);
  if (row == std::end(kLinearLayers)) return std::nullopt;
  const std::string_view names = all ? row->all : row->usual;
  return names.empty() ? std::nullopt : std::optional<std::string>(names);
}

}  // namespace memest::hugging_face
