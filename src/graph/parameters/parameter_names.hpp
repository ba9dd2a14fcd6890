// A family's names of its tensors in the state dict. Counting needs none of it; adapters, sharding
// rules and people do.
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>

#include "memest/spec/implementation.hpp"

namespace memest {

/// Module names without the layer index; ".weight" and ".bias" follow. The defaults are LLaMA's.
struct DecoderNames {
  std::string_view model_type = {};
  std::string_view embedding = "embed_tokens";
  std::string_view position = "embed_positions";
  std::string_view embedding_norm = "embed_layernorm";
  std::string_view q = "self_attn.q_proj";
  std::string_view k = "self_attn.k_proj";
  std::string_view v = "self_attn.v_proj";
  std::string_view qkv = "self_attn.qkv_proj";
  std::string_view attention_output = "self_attn.o_proj";
  std::string_view q_norm = "self_attn.q_norm";
  std::string_view k_norm = "self_attn.k_norm";
  std::string_view gate = "mlp.gate_proj";
  std::string_view up = "mlp.up_proj";
  std::string_view gate_up = "mlp.gate_up_proj";
  std::string_view down = "mlp.down_proj";
  std::string_view router = "mlp.gate";
  std::string_view experts = "mlp.experts";
  std::string_view shared_experts = "mlp.shared_expert";
  /// Experts' matrices that are parameters of their own; empty: gate and up are one.
  std::string_view expert_gate = {};
  std::string_view expert_up = {};
  std::string_view expert_down = {};
  std::string_view first_norm = "input_layernorm";
  std::string_view second_norm = "post_attention_layernorm";
  std::string_view sandwich_second_norm = "pre_feedforward_layernorm";
  std::string_view attention_output_norm = "post_attention_layernorm";
  std::string_view feed_forward_output_norm = "post_feedforward_layernorm";
  std::string_view parallel_first_norm = "input_layernorm";
  std::string_view parallel_second_norm = "post_attention_layernorm";
  std::string_view final_norm = "norm";
  std::string_view head = "lm_head";
  /// The modules of the model in the order in which its class registers them, "layers" among them;
  /// what is not listed comes last.
  std::string_view model_order = "embed_tokens layers norm rotary_emb lm_head";
  /// The modules of a layer. One name stands for its submodules too, in the order of the fields
  /// above.
  std::string_view layer_order = "self_attn mlp input_layernorm post_attention_layernorm";
  bool stored_in_out = false;   ///< matrices are [in, out] (GPT-2's Conv1D)
  bool experts_in_out = false;  ///< expert matrices are [experts, in, out] (GPT-OSS)
  bool rotary_modules = true;   ///< a rotary embedding is a module with buffers of its own
  bool one_tensor_a_head =
      false;  ///< heads' own query and key gains are separate tensors (StableLM)
};

inline constexpr std::size_t kUnlisted = std::numeric_limits<std::size_t>::max();

/// The place in `order` (names with spaces between) of the module that the tensor or module `name`
/// belongs to: of the first that it is or lies in. kUnlisted where there is none.
std::size_t place_in_order(std::string_view name, std::string_view order);

/// Stands for a model type where the model is karpathy/nanoGPT's own class.
inline constexpr std::string_view kNanogpt = "nanogpt";
/// Stands for one where it is torchtitan's LLaMA.
inline constexpr std::string_view kTorchtitan = "torchtitan";
/// Stands for one where it is torchtune's TransformerDecoder.
inline constexpr std::string_view kTorchtune = "torchtune";
/// Stands for one where it is litgpt's GPT.
inline constexpr std::string_view kLitgpt = "litgpt";
/// Stands for one where it is a GPT written by hand after nanoGPT: a block has its norms first.
inline constexpr std::string_view kByHand = "nanogpt by hand";

/// The model type whose class `implementation` trains for a model of `model_type`: its loop's or
/// its framework's own, where it has one.
std::string_view stored_type(std::string_view model_type, const Implementation& implementation);

/// The names of `model_type`; LLaMA's where it has none of its own.
const DecoderNames& names_of(std::string_view model_type);

}  // namespace memest
