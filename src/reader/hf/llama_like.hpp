// Decoders that differ from LLaMA by values only: one row of facts and defaults each.
#pragma once

#include <optional>
#include <string_view>

#include "reader/hf/decoder_config.hpp"

namespace memest::hf {

/// Which layers attend to a window only.
enum class WindowRule : std::uint8_t {
  none,
  every_layer,          ///< all, where sliding_window is not null
  every_layer_if_used,  ///< all, where use_sliding_window says so
  pattern,              ///< all but every n-th
  from_layer,   ///< from max_window_layers on, where use_sliding_window says so (Qwen 2, Qwen 3)
  even_before,  ///< every second before max_window_layers, where use_sliding_window says so
                ///< (Qwen2-MoE)
  unrotated     ///< those without rotation, where use_sliding_window says so (SmolLM 3)
};

/// Which layers rotate queries and keys.
enum class RotationRule : std::uint8_t { every_layer, sliding_layers, listed_layers };

struct Sizes {
  std::int64_t vocab = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  std::int64_t layers = 0;
  std::int64_t max_positions = 0;
};

struct Window {
  WindowRule rule = WindowRule::none;
  std::int64_t size = 0;     ///< default of sliding_window; 0: null
  std::int64_t pattern = 0;  ///< default of sliding_window_pattern
};

struct LlamaLike {
  std::string_view model_type;
  Sizes sizes;
  HeadKeys heads;
  bool tied = false;
  std::string_view activation_key = "hidden_act";
  std::string_view activation = "silu";
  bool gated = true;
  bool fused_gate_up = false;
  QkvLayout qkv = QkvLayout::separate;
  Switch qkv_bias = {};
  Switch output_bias = {};
  Switch mlp_bias = {};
  Switch head_bias = {};
  Norm norm = {};
  BlockLayout layout = BlockLayout::pre_norm;
  Switch parallel_one_norm = {};  ///< where on, replaces `layout`
  QkNorm qk_norm = QkNorm::none;
  Switch qk_normed = {{}, true};  ///< whether `qk_norm` applies
  Norm qk_norm_kind = {};
  RotaryRule rotary = {};
  bool table_a_layer_type = false;  ///< sliding and full layers rotate differently
  RotationRule rotation = RotationRule::every_layer;
  Window window = {};
  std::optional<MoeKeys> moe = {};
  bool sinks = false;
  double attention_softcap = 0;  ///< default of attn_logit_softcapping; 0: null
  double logit_softcap = 0;      ///< default of final_logit_softcapping; 0: null
  bool gemma_embedding = false;  ///< the embedding is scaled by a buffer
  bool granite_scales = false;   ///< embedding, branches and logits are scaled
  bool scaled_logits = false;
};

DecoderSpec read_llama_like(ConfigReader& config, const LlamaLike& row);

}  // namespace memest::hf
