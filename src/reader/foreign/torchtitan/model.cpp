// torchtitan 0.2.2's registry: torchtitan/models/MODEL/__init__.py.
#include <algorithm>
#include <string>

#include "reader/foreign/torchtitan/torchtitan.hpp"
#include "reader/text/scalar.hpp"

namespace memest::torchtitan {
namespace {

constexpr std::string_view kLlama = "activation: swiglu, norm: rmsnorm, position: rope";
constexpr std::string_view kQwen =
    "head_dim: 128, qk_norm: true, activation: swiglu, norm: rmsnorm, position: rope";
constexpr std::string_view kQwenTied =
    "head_dim: 128, qk_norm: true, tied_embeddings: true, activation: swiglu, norm: rmsnorm, "
    "position: rope";

// ffn_size of LLaMA: 2/3 of 4 · dim, times ffn_dim_multiplier, up to a multiple of multiple_of. 8B:
// int(1.3 · 10922) = 14198, to 14 · 1024.
constexpr Flavor kFlavors[] = {
    {"llama3", "debugmodel",
     "layers: 6, hidden_size: 256, heads: 16, ffn_size: 768, vocab_size: 2048", kLlama},
    {"llama3", "8B",
     "layers: 32, hidden_size: 4096, heads: 32, kv_heads: 8, ffn_size: 14336, vocab_size: 128256",
     kLlama},
    {"llama3", "70B",
     "layers: 80, hidden_size: 8192, heads: 64, kv_heads: 8, ffn_size: 28672, vocab_size: 128256",
     kLlama},
    {"llama3", "405B",
     "layers: 126, hidden_size: 16384, heads: 128, kv_heads: 8, ffn_size: 53248, vocab_size: "
     "128256",
     kLlama},
    {"llama3", "debugmodel_flex_attn",
     "layers: 6, hidden_size: 256, heads: 16, ffn_size: 768, vocab_size: 2048", kLlama, true},
    {"llama3", "8B_flex",
     "layers: 32, hidden_size: 4096, heads: 32, kv_heads: 8, ffn_size: 14336, vocab_size: 128256",
     kLlama, true},
    {"qwen3", "debugmodel",
     "layers: 8, hidden_size: 256, heads: 16, kv_heads: 8, ffn_size: 3072, vocab_size: 2048",
     kQwenTied},
    {"qwen3", "0.6B",
     "layers: 28, hidden_size: 1024, heads: 16, kv_heads: 8, ffn_size: 3072, vocab_size: 151936",
     kQwenTied},
    {"qwen3", "1.7B",
     "layers: 28, hidden_size: 2048, heads: 16, kv_heads: 8, ffn_size: 6144, vocab_size: 151936",
     kQwenTied},
    {"qwen3", "4B",
     "layers: 36, hidden_size: 2560, heads: 32, kv_heads: 8, ffn_size: 9728, vocab_size: 151936",
     kQwenTied},
    {"qwen3", "8B",
     "layers: 36, hidden_size: 4096, heads: 32, kv_heads: 8, ffn_size: 12288, vocab_size: 151936",
     kQwen},
    {"qwen3", "14B",
     "layers: 40, hidden_size: 5120, heads: 40, kv_heads: 8, ffn_size: 17408, vocab_size: 151936",
     kQwen},
    {"qwen3", "32B",
     "layers: 64, hidden_size: 5120, heads: 64, kv_heads: 8, ffn_size: 25600, vocab_size: 151936",
     kQwen},
    {"qwen3", "debugmodel_moe",
     "layers: 8, hidden_size: 256, heads: 16, kv_heads: 8, ffn_size: 3072, vocab_size: 2048, moe: "
     "{experts: 64, top_k: 8, expert_ffn_size: 768}",
     kQwen},
    {"qwen3", "30B-A3B",
     "layers: 48, hidden_size: 2048, heads: 32, kv_heads: 4, ffn_size: 6144, vocab_size: 151936, "
     "moe: {experts: 128, top_k: 8, expert_ffn_size: 768}",
     kQwen},
    {"qwen3", "235B-A22B",
     "layers: 94, hidden_size: 4096, heads: 64, kv_heads: 4, ffn_size: 12288, vocab_size: 151936, "
     "moe: {experts: 128, top_k: 8, expert_ffn_size: 1536}",
     kQwen},
    {"deepseek_v3", "debugmodel",
     "layers: 6, hidden_size: 256, heads: 16, ffn_size: 1024, vocab_size: 2048, moe: {experts: 8, "
     "top_k: 3, shared_experts: 2, expert_ffn_size: 256, dense_layers: 1}, mla: {kv_lora_rank: "
     "512, qk_nope_head_dim: 128, qk_rope_head_dim: 64, v_head_dim: 128}",
     kLlama},
    {"deepseek_v3", "16B",
     "layers: 27, hidden_size: 2048, heads: 16, ffn_size: 10944, vocab_size: 102400, moe: "
     "{experts: 64, top_k: 6, shared_experts: 2, expert_ffn_size: 1408, dense_layers: 1}, mla: "
     "{kv_lora_rank: 512, qk_nope_head_dim: 128, qk_rope_head_dim: 64, v_head_dim: 128}",
     kLlama, true},
    {"deepseek_v3", "236B",
     "layers: 60, hidden_size: 5120, heads: 128, ffn_size: 12288, vocab_size: 102400, moe: "
     "{experts: 160, top_k: 6, shared_experts: 2, expert_ffn_size: 1536, dense_layers: 1}, mla: "
     "{q_lora_rank: 1536, kv_lora_rank: 512, qk_nope_head_dim: 128, qk_rope_head_dim: 64, "
     "v_head_dim: 128}",
     kLlama, true},
    {"deepseek_v3", "671B",
     "layers: 61, hidden_size: 7168, heads: 128, ffn_size: 18432, vocab_size: 129280, moe: "
     "{experts: 256, top_k: 8, shared_experts: 1, expert_ffn_size: 2048, dense_layers: 3, "
     "score_bias: true}, mla: {q_lora_rank: 1536, kv_lora_rank: 512, qk_nope_head_dim: 128, "
     "qk_rope_head_dim: 64, v_head_dim: 128}",
     kLlama, true},
};

std::string known_flavors(std::string_view model) {
  std::string names;
  for (const Flavor& row : kFlavors) {
    if (row.model == model) names += (names.empty() ? "" : ", ") + std::string(row.flavor);
  }
  return names;
}

}  // namespace

std::span<const Flavor> flavors() { return kFlavors; }

void write_model(ForeignImport& file) {
  // job_config.py: Model's defaults. 0.2's llama3_ft is the same model with other replicas.
  std::string name = file.text("model.name", "llama3");
  if (name == "llama3_ft") name = "llama3";
  const std::string flavor = file.text("model.flavor", "debugmodel");
  const auto* const row = std::ranges::find_if(kFlavors, [&](const Flavor& candidate) {
    return candidate.model == name && candidate.flavor == flavor;
  });
  if (row == std::end(kFlavors)) {
    const std::string known = known_flavors(name);
    if (known.empty()) {
      return file.refuse("model.name", "torchtitan's model " + quote(name),
                         "known are llama3, qwen3 and deepseek_v3");
    }
    return file.refuse("model.flavor", "the flavor " + quote(flavor) + " of torchtitan's " + name,
                       "its registry has " + known);
  }
  if (row->flex) {
    return file.refuse("model.flavor",
                       "attention by flex_attention, as the flavor " + quote(flavor) + " has it",
                       "a flavor of the same sizes without it may be known");
  }
  file.write("model", "{" + std::string(row->sizes) + ", " + std::string(row->traits) + "}",
             {"model.flavor", "model.name"});
}

}  // namespace memest::torchtitan
