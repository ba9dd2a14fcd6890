// transformers 5.17, models/{qwen2_vl,qwen2_5_vl}/configuration_*.py (defaults) and modeling_*.py.
#include <algorithm>
#include <string>
#include <vector>

#include "reader/hf/decoder_config.hpp"
#include "reader/multimodal/multimodal.hpp"

namespace memest::hf {
namespace {

/// A class of towers: Qwen2VLVisionConfig or Qwen2_5_VLVisionConfig.
struct PackedRow {
  std::string_view width_key;
  std::int64_t width = 0;
  std::string_view activation;
  bool gated = false;
  Norm norm;
  bool windows = false;
};

constexpr PackedRow kQwen2{
    "embed_dim", 1280, "quick_gelu", false, {.kind = NormKind::layernorm, .bias = true}, false};
// Qwen2_5_VLVisionConfig's default width is the decoder's; every published config says 1280.
constexpr PackedRow kQwen25{"hidden_size", 3584, "silu", true, {.kind = NormKind::rmsnorm}, true};

std::int64_t read_ffn(ConfigReader& config, const PackedRow& row, std::int64_t width) {
  if (row.gated) return config.size({"intermediate_size"}, 3420);
  return config.scaled_size({"mlp_ratio"}, 4, width);
}

DecoderSpec packed_encoder_of(ConfigReader& config, const PackedRow& row) {
  DecoderSpec encoder;
  encoder.hidden_size = config.size({row.width_key}, row.width);
  encoder.embedding_size = encoder.hidden_size;
  SoftmaxAttention attention;
  attention.heads = config.size({"num_heads", "num_attention_heads"}, 16);
  attention.kv_heads = attention.heads;
  attention.head_dim = whole_head_dim(config, {"num_heads", "num_attention_heads"},
                                      encoder.hidden_size, attention.heads);
  if (attention.head_dim % 4 != 0) {
    config.error({"num_heads", "num_attention_heads"},
                 "a head's channels rotate by rows and by columns: a multiple of 4");
  }
  attention.layout = QkvLayout::fused;
  attention.q_bias = attention.kv_bias = attention.output_bias = true;
  encoder.position = RotaryPosition{.rotary_dim = attention.head_dim};
  encoder.attention = attention;
  encoder.norm = row.norm;
  encoder.head = DecoderHead::none;
  const LayerKind kind{.feed_forward = DenseFeedForward{
                           .size = read_ffn(config, row, encoder.hidden_size),
                           .activation = read_activation(config, {"hidden_act"}, row.activation),
                           .gated = row.gated,
                           .bias = true}};
  const std::int64_t layers = read_layers(config, {"depth"}, 32);
  set_layers(encoder, std::vector<LayerKind>(static_cast<std::size_t>(layers), kind));
  return encoder;
}

/// vit_merger_window_size = window_size // spatial_merge_size // patch_size
VisionWindows read_windows(ConfigReader& config, std::int64_t merge, std::int64_t patch) {
  const std::int64_t pixels = config.size({"window_size"}, 112);
  const std::int64_t tokens = pixels / merge / patch;
  if (tokens < 1) config.error({"window_size"}, "a window is smaller than a token of the image");
  return {.side = std::max<std::int64_t>(tokens, 1) * merge,
          .full = config.sizes({"fullatt_block_indexes"}, {7, 15, 23, 31})};
}

}  // namespace

VisionPart read_packed_vision(std::string_view model_type, ConfigReader& config,
                              DecoderSpec& decoder) {
  const PackedRow& row = model_type == "qwen2_vl" ? kQwen2 : kQwen25;
  ConfigReader section = config.section("vision_config");
  VisionPart vision;
  VisionTower& tower = vision.tower;
  tower.model_type = "qwen2_vl_vision";
  tower.packed = true;
  tower.patches = {.patch = section.size({"patch_size"}, 14),
                   .channels = section.size({"in_channels"}, 3),
                   .frames = section.size({"temporal_patch_size"}, 2)};
  tower.encoder = packed_encoder_of(section, row);
  tower.used = tower.encoder.layers();
  const std::int64_t merge = section.size({"spatial_merge_size"}, 2);
  vision.projector = {.kind = ProjectorKind::merged, .pool = merge};
  if (row.windows) tower.windows = read_windows(section, merge, tower.patches.patch);
  // PatchMerger's width must be the decoder's, whose embeddings it stands beside.
  const std::string_view answered = row.gated ? "out_hidden_size" : "hidden_size";
  if (section.size({answered}, decoder.hidden_size) != decoder.hidden_size) {
    section.error({answered}, "the merger's tokens are not as wide as the decoder's embeddings");
  }
  const bool slides = std::ranges::any_of(
      decoder.kinds, [](const LayerKind& kind) { return kind.sliding_window.has_value(); });
  if (slides) decoder.unfollowed.emplace_back("use_sliding_window");
  decoder.tied_embeddings = config.flag({"tie_word_embeddings"}, false) || decoder.tied_embeddings;
  return vision;
}

}  // namespace memest::hf
