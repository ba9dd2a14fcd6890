// What a family calls its tensors in the state dict. Counting needs none of it; adapters, sharding
// rules and people do.
#pragma once

#include <cstdint>
#include <string_view>

namespace memest {

/// In which order a layer registers its modules: that of state dict, placement and optimizer.
enum class LayerOrder : std::uint8_t {
  norms_last,    ///< attention, feed-forward, norms (LLaMA)
  norms_first,   ///< norms, attention, feed-forward (GPT-NeoX)
  norms_before,  ///< norm, attention, norm, feed-forward (GPT-2)
  norms_after    ///< attention, norm, feed-forward, norm (OPT)
};
enum class ProjectionOrder : std::uint8_t { q_k_v_output, k_v_q_output, output_q_k_v };

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
  std::string_view first_norm = "input_layernorm";
  std::string_view second_norm = "post_attention_layernorm";
  std::string_view sandwich_second_norm = "pre_feedforward_layernorm";
  std::string_view attention_output_norm = "post_attention_layernorm";
  std::string_view feed_forward_output_norm = "post_feedforward_layernorm";
  std::string_view parallel_first_norm = "input_layernorm";
  std::string_view parallel_second_norm = "post_attention_layernorm";
  std::string_view final_norm = "norm";
  std::string_view head = "lm_head";
  LayerOrder layer_order = LayerOrder::norms_last;
  ProjectionOrder projection_order = ProjectionOrder::q_k_v_output;
  bool final_norm_first = false;  ///< registered before the layers
  bool stored_in_out = false;     ///< matrices are [in, out] (GPT-2's Conv1D)
  bool experts_in_out = false;    ///< expert matrices are [experts, in, out] (GPT-OSS)
  bool one_tensor_a_head =
      false;  ///< heads' own query and key gains are separate tensors (StableLM)
};

/// The names of `model_type`; LLaMA's where it has none of its own.
const DecoderNames& names_of(std::string_view model_type);

}  // namespace memest
