#include "reader/hf/llama_like.hpp"

#include <algorithm>
#include <string>

namespace memest::hf {
namespace {

/// For each layer whether it rotates.
std::vector<bool> rotating_layers(ConfigReader& config, std::int64_t layers) {
  const Keys list_keys = {"no_rope_layers"};
  const std::vector<std::int64_t> listed = config.sizes(list_keys, {});
  if (!listed.empty() && static_cast<std::int64_t>(listed.size()) != layers) {
    config.error(list_keys, "'no_rope_layers' names " + std::to_string(listed.size()) +
                                " layers of " + std::to_string(layers));
  }
  // SmolLM3Config.__post_init__: int((layer + 1) % no_rope_layer_interval != 0), so that layers 3,
  // 7, 11, ... have no position.
  const std::int64_t interval = config.size({"no_rope_layer_interval"}, 4);
  std::vector<bool> rotates;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto index = static_cast<std::size_t>(layer);
    rotates.push_back(index < listed.size() ? listed[index] != 0 : (layer + 1) % interval != 0);
  }
  return rotates;
}

/// For each layer whether its attention slides, by the class's own rule.
std::vector<bool> sliding_by_rule(ConfigReader& config, const Window& window,
                                  const std::vector<bool>& rotates) {
  // Qwen2Config slides from max_window_layers on, in spite of the name: of 32 layers the last four.
  const std::int64_t first_without = config.count({"max_window_layers"}, 28);
  const std::int64_t pattern =
      config.size({"sliding_window_pattern", "_sliding_window_pattern"}, window.pattern);
  std::vector<bool> sliding;
  for (std::size_t index = 0; index < rotates.size(); ++index) {
    const auto layer = static_cast<std::int64_t>(index);
    switch (window.rule) {
      case WindowRule::none:
        sliding.push_back(false);
        break;
      case WindowRule::every_layer:
      case WindowRule::every_layer_if_used:
        sliding.push_back(true);
        break;
      // layer_types as Gemma2Config and Gemma3Config write them: bool((i + 1) % pattern). Pattern
      // 6: layers 0 to 4 slide, layer 5 does not.
      case WindowRule::pattern:
        sliding.push_back((layer + 1) % pattern != 0);
        break;
      case WindowRule::from_layer:
        sliding.push_back(layer >= first_without);
        break;
      // Qwen2MoeConfig: (i + 1) % 2 and i < max_window_layers.
      case WindowRule::even_before:
        sliding.push_back((layer + 1) % 2 != 0 && layer < first_without);
        break;
      // SmolLM3Config: use_sliding_window and not has_rope.
      case WindowRule::unrotated:
        sliding.push_back(!rotates[index]);
        break;
    }
  }
  return sliding;
}

/// Whether the rule asks use_sliding_window first, which is off by default.
bool asks_use(WindowRule rule) {
  return rule == WindowRule::every_layer_if_used || rule == WindowRule::from_layer ||
         rule == WindowRule::even_before || rule == WindowRule::unrotated;
}

/// The window of the layers that have one; none where it is off or null.
std::optional<std::int64_t> read_window(ConfigReader& config, const Window& window) {
  if (window.rule == WindowRule::none) return std::nullopt;
  const bool used = !asks_use(window.rule) || config.flag({"use_sliding_window"}, false);
  const Keys keys = {"sliding_window"};
  // Where it is not used its size is 0 in configs that transformers wrote.
  if (!used) {
    (void)config.find(keys);
    return std::nullopt;
  }
  std::optional<std::int64_t> size = config.optional_size(keys);
  // A written null is no window; a key left out is the class's default.
  if (!config.has(keys) && window.size > 0) size = window.size;
  return size;
}

std::vector<bool> sliding_layers(ConfigReader& config, const Window& window,
                                 const std::vector<bool>& rotates) {
  const auto layers = static_cast<std::int64_t>(rotates.size());
  // Mistral, Mixtral, Phi-3, PhiMoE, StarCoder2 and Qwen3-MoE read sliding_window alone, for all
  // layers.
  const bool typed = window.rule != WindowRule::none && window.rule != WindowRule::every_layer &&
                     window.rule != WindowRule::every_layer_if_used;
  const std::vector<bool> listed = typed ? read_layer_types(config, layers) : std::vector<bool>{};
  return listed.empty() ? sliding_by_rule(config, window, rotates) : listed;
}

/// Layer types that share nothing of their position: one table of cosines and sines each.
std::int64_t layer_types_in(const std::vector<bool>& slides) {
  const bool some_slide = std::find(slides.begin(), slides.end(), true) != slides.end();
  const bool some_do_not = std::find(slides.begin(), slides.end(), false) != slides.end();
  return (some_slide ? 1 : 0) + (some_do_not ? 1 : 0);
}

void read_layer_kinds(ConfigReader& config, const LlamaLike& row, DecoderSpec& decoder) {
  const std::int64_t layers = read_layers(config, {"num_hidden_layers"}, row.sizes.layers);
  const ActivationFunction activation =
      read_activation(config, {row.activation_key, "hidden_act"}, row.activation);
  FeedForward dense = DenseFeedForward{.size = config.size({"intermediate_size"}, row.sizes.ffn),
                                       .activation = activation,
                                       .gated = row.gated,
                                       .fused_gate_up = row.fused_gate_up,
                                       .bias = read_switch(config, row.mlp_bias)};
  const auto all = static_cast<std::size_t>(layers);
  FeedForward sparse = dense;
  std::vector<bool> is_dense(all, true);
  if (row.moe) {
    sparse = read_experts(config, *row.moe, activation);
    is_dense = read_dense_layers(config, *row.moe, layers);
  }
  const std::vector<bool> rotates = row.rotation == RotationRule::listed_layers
                                        ? rotating_layers(config, layers)
                                        : std::vector<bool>(all, true);
  const std::optional<std::int64_t> window = read_window(config, row.window);
  const std::vector<bool> slides = sliding_layers(config, row.window, rotates);
  // Gemma3RotaryEmbedding registers inv_freq and original_inv_freq for each type that occurs.
  if (row.table_a_layer_type) {
    std::get<RotaryPosition>(decoder.position).tables = layer_types_in(slides);
  }
  std::vector<LayerKind> kinds;
  for (std::size_t layer = 0; layer < all; ++layer) {
    kinds.push_back(
        {.sliding_window = slides[layer] ? window : std::nullopt,
         .feed_forward = is_dense[layer] ? dense : sparse,
         .rotates = row.rotation == RotationRule::sliding_layers ? slides[layer] : rotates[layer]});
  }
  set_layers(decoder, kinds);
}

SoftmaxAttention read_attention(ConfigReader& config, const LlamaLike& row, std::int64_t hidden) {
  SoftmaxAttention attention;
  read_heads(config, hidden, row.heads, attention);
  attention.layout = row.qkv;
  attention.q_bias = read_switch(config, row.qkv_bias);
  // No row gives q, k and v different biases.
  attention.kv_bias = attention.q_bias;
  attention.output_bias = read_switch(config, row.output_bias);
  if (row.qk_norm != QkNorm::none && read_switch(config, row.qk_normed)) {
    attention.qk_norm = row.qk_norm;
    attention.qk_norm_kind = row.qk_norm_kind;
  }
  attention.sinks = row.sinks;
  // null switches the cap off (Gemma2Attention hands it on as softcap), a key left out means 50.
  const Keys softcap_keys = {"attn_logit_softcapping"};
  if (row.attention_softcap > 0 && !config.has(softcap_keys)) {
    attention.softcap = row.attention_softcap;
  } else if (row.attention_softcap > 0) {
    attention.softcap = config.optional_number(softcap_keys);
  }
  return attention;
}

void read_scales(ConfigReader& config, const LlamaLike& row, DecoderSpec& decoder) {
  // Gemma multiplies by sqrt(hidden_size) in its embedding, Granite by embedding_multiplier.
  decoder.scaled_embedding = row.gemma_embedding || row.granite_scales;
  decoder.scaled_residual = row.granite_scales;
  decoder.scaled_logits = row.granite_scales || row.scaled_logits;
  // Gemma's scaled embedding keeps its factor as a non-persistent buffer: one number in the
  // weights' dtype.
  if (row.gemma_embedding) {
    decoder.buffers.push_back(
        {.name = "embed_tokens.embed_scale", .shape = {}, .as_weights = true});
  }
  const Keys softcap_keys = {"final_logit_softcapping"};
  if (row.logit_softcap > 0) {
    decoder.logit_softcap = config.has(softcap_keys) ? config.optional_number(softcap_keys)
                                                     : std::optional(row.logit_softcap);
  }
}

}  // namespace

DecoderSpec read_llama_like(ConfigReader& config, const LlamaLike& row) {
  DecoderSpec decoder;
  decoder.hidden_size = config.size({"hidden_size"}, row.sizes.hidden);
  decoder.vocab_size = config.size({"vocab_size"}, row.sizes.vocab);
  decoder.embedding_size = decoder.hidden_size;
  decoder.max_positions = config.size({"max_position_embeddings"}, row.sizes.max_positions);
  const SoftmaxAttention attention = read_attention(config, row, decoder.hidden_size);
  decoder.attention = attention;
  decoder.position = read_rotary(config, attention.head_dim, row.rotary);
  decoder.norm = row.norm;
  decoder.layout =
      read_switch(config, row.parallel_one_norm) ? BlockLayout::parallel_one_norm : row.layout;
  decoder.head_bias = read_switch(config, row.head_bias);
  decoder.dropout = {
      // Phi calls them embd_pdrop and resid_pdrop, StarCoder2 embedding_dropout and
      // residual_dropout.
      .embedding = config.probability({"embd_pdrop", "embedding_dropout"}, 0),
      .attention = config.probability({"attention_dropout"}, 0),
      .residual = config.probability({"resid_pdrop", "residual_dropout", "hidden_dropout"}, 0)};
  read_layer_kinds(config, row, decoder);
  read_scales(config, row, decoder);
  read_decoder_head(config, row.tied, decoder);
  return decoder;
}

}  // namespace memest::hf
