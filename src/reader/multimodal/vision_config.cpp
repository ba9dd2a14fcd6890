// transformers 5.17, models/{llava,clip}/configuration_*.py (defaults) and modeling_*.py.
#include <algorithm>
#include <array>
#include <string>

#include "reader/hf/decoder_config.hpp"
#include "reader/multimodal/multimodal.hpp"
#include "reader/text/scalar.hpp"

namespace memest::hf {
namespace {

struct TowerSizes {
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t side = 0;
  std::int64_t patch = 0;
};

struct TowerRow {
  std::string_view model_type;
  TowerSizes sizes;
  std::string_view activation;
  bool class_token = false;
  bool patch_bias = false;
  bool norm_before = false;
};

constexpr std::array kTowerRows = {
    // CLIPVisionEmbeddings: Conv2d(bias=False), a class_embedding; CLIPVisionModel.pre_layrnorm.
    TowerRow{"clip_vision_model", {768, 3072, 12, 12, 224, 32}, "quick_gelu", true, false, true},
    // SiglipVisionEmbeddings: Conv2d with a bias and a position for each patch.
    TowerRow{"siglip_vision_model",
             {768, 3072, 12, 12, 224, 16},
             "gelu_pytorch_tanh",
             false,
             true,
             false}};

/// A multimodal model, whose projector differs.
struct MultimodalRow {
  std::string_view model_type;
  ProjectorKind projector = ProjectorKind::two_layers;
  std::string_view tower;  ///< where the config's section names no type
  TowerSizes unwritten;    ///< the tower where the config has no section
};

constexpr std::array kImageModels = {
    // LlavaConfig.__post_init__: without a vision_config the ViT-L of CLIP, of 336 pixels.
    MultimodalRow{
        "llava", ProjectorKind::two_layers, "clip_vision_model", {1024, 4096, 24, 16, 336, 14}},
    // Gemma3Config.__post_init__: without a vision_config a SiglipVisionConfig as it is.
    MultimodalRow{
        "gemma3", ProjectorKind::pooled, "siglip_vision_model", {768, 3072, 12, 12, 224, 16}},
    MultimodalRow{"qwen2_vl", ProjectorKind::merged, {}, {}},
    MultimodalRow{"qwen2_5_vl", ProjectorKind::merged, {}, {}}};

const MultimodalRow* row_of(std::string_view model_type) {
  const auto* const found = std::ranges::find(kImageModels, model_type, &MultimodalRow::model_type);
  return found == kImageModels.end() ? nullptr : found;
}

DecoderSpec encoder_of(ConfigReader& config, const TowerRow& row, const TowerSizes& sizes) {
  DecoderSpec encoder;
  encoder.hidden_size = config.size({"hidden_size"}, sizes.hidden);
  encoder.embedding_size = encoder.hidden_size;
  SoftmaxAttention attention;
  attention.heads = config.size({"num_attention_heads"}, sizes.heads);
  attention.kv_heads = attention.heads;
  attention.head_dim =
      whole_head_dim(config, {"num_attention_heads"}, encoder.hidden_size, attention.heads);
  attention.q_bias = attention.kv_bias = attention.output_bias = true;
  encoder.attention = attention;
  encoder.position = NoPosition();
  encoder.norm = {.kind = NormKind::layernorm, .bias = true};
  encoder.head = DecoderHead::none;
  encoder.dropout.attention = config.probability({"attention_dropout"}, 0);
  const LayerKind kind{.feed_forward = DenseFeedForward{
                           .size = config.size({"intermediate_size"}, sizes.ffn),
                           .activation = read_activation(config, {"hidden_act"}, row.activation),
                           .gated = false,
                           .bias = true}};
  const std::int64_t layers = read_layers(config, {"num_hidden_layers"}, sizes.layers);
  set_layers(encoder, std::vector<LayerKind>(static_cast<std::size_t>(layers), kind));
  return encoder;
}

/// Pixels of an image: its patches times the images of a sequence stay within 64 bits.
constexpr std::int64_t kLargestSide = 16'384;

VisionTower read_tower(ConfigReader& config, const TowerRow& row, const TowerSizes& sizes) {
  VisionTower tower;
  tower.model_type = row.model_type;
  const std::int64_t side = config.size({"image_size"}, sizes.side);
  tower.patches = {.height = side,
                   .width = side,
                   .patch = config.size({"patch_size"}, sizes.patch),
                   .channels = config.size({"num_channels"}, 3),
                   .bias = row.patch_bias,
                   .class_token = row.class_token};
  if (tower.patches.patch > side) {
    config.error({"patch_size"}, "a patch is larger than the image");
    tower.patches.patch = side;
  }
  if (side > kLargestSide) {
    config.error({"image_size"}, "no tower takes images of so many pixels",
                 "at most " + std::to_string(kLargestSide) + " a side");
    tower.patches.height = tower.patches.width = kLargestSide;
  }
  tower.encoder = encoder_of(config, row, sizes);
  tower.norm_before = row.norm_before;
  tower.used = tower.encoder.layers();
  return tower;
}

/// LlavaModel.get_image_features: hidden_states[vision_feature_layer], from the one before the
/// first layer on, or counted from the last.
void read_feature_layer(ConfigReader& config, VisionTower& tower, DecoderSpec& decoder) {
  const Keys keys = {"vision_feature_layer"};
  const Value* const written = config.find(keys);
  if (written != nullptr && written->kind == ValueKind::sequence) {
    decoder.unfollowed.emplace_back("vision_feature_layer");  // several, joined
    return;
  }
  const auto layer = static_cast<std::int64_t>(config.number(keys, -2));
  const std::int64_t states = tower.encoder.layers() + 1;
  tower.used = layer < 0 ? states + layer : layer;
  if (tower.used >= 0 && tower.used < states) return;
  config.error(keys, "the tower has no hidden state " + std::to_string(layer));
  tower.used = tower.encoder.layers();
}

void read_llava(ConfigReader& config, VisionPart& vision, DecoderSpec& decoder) {
  read_feature_layer(config, vision.tower, decoder);
  const std::string strategy = config.word({"vision_feature_select_strategy"}, "default");
  if (strategy != "default" && strategy != "full") {
    config.error({"vision_feature_select_strategy"}, "unknown strategy '" + strategy + "'",
                 "known are default and full");
  }
  vision.tower.drops_class = vision.tower.patches.class_token && strategy == "default";
  vision.projector = {.kind = ProjectorKind::two_layers,
                      .activation = read_activation(config, {"projector_hidden_act"}, "gelu"),
                      .bias = config.flag({"multimodal_projector_bias"}, true)};
  // LlavaConfig takes tie_word_embeddings of the text where its own is not set.
  decoder.tied_embeddings = config.flag({"tie_word_embeddings"}, false) || decoder.tied_embeddings;
}

void read_gemma3(ConfigReader& config, VisionPart& vision, DecoderSpec& decoder) {
  VisionTower& tower = vision.tower;
  tower.reads_normed = true;
  const std::int64_t tokens = config.size({"mm_tokens_per_image"}, 256);
  std::int64_t side = 1;
  while ((side + 1) * (side + 1) <= tokens) ++side;
  vision.projector = {.kind = ProjectorKind::pooled, .pool = tower.patches.rows() / side};
  if (side > tower.patches.rows() || tower.patches.rows() % side != 0) {
    config.error({"mm_tokens_per_image"}, "the tower's patches are no squares of so many tokens");
    vision.projector.pool = 1;
  }
  decoder.tied_embeddings = config.flag({"tie_word_embeddings"}, true);
  // llm_input_ids: a token beyond the vocabulary is written over in a copy.
  if (config.size({"image_token_index", "image_token_id"}, 262144) >= decoder.vocab_size) {
    decoder.unfollowed.emplace_back("image_token_index");
  }
}

}  // namespace

bool reads_images(std::string_view model_type) { return row_of(model_type) != nullptr; }

// Qwen2VLConfig.__post_init__: "Hub configs are saved as flat dicts".
bool has_flat_text(std::string_view model_type) {
  const MultimodalRow* row = row_of(model_type);
  return row != nullptr && row->projector == ProjectorKind::merged;
}

VisionPart read_vision(std::string_view model_type, ConfigReader& config, DecoderSpec& decoder) {
  const MultimodalRow& row = *row_of(model_type);
  const std::string architecture = read_architecture(config);
  if (!architecture.empty() && !architecture.ends_with("ForConditionalGeneration")) {
    decoder.unfollowed.emplace_back("architectures");
  }
  decoder.head = DecoderHead::language_model;
  if (row.projector == ProjectorKind::merged) {
    return read_packed_vision(model_type, config, decoder);
  }
  const bool written = config.find({"vision_config"}) != nullptr;
  ConfigReader section = config.section("vision_config");
  const std::string type = section.word({"model_type"}, row.tower);
  const auto* tower = std::ranges::find(kTowerRows, type, &TowerRow::model_type);
  if (tower == kTowerRows.end()) {
    decoder.unfollowed.emplace_back("vision_config");  // another tower
    tower = kTowerRows.begin();
  }
  VisionPart vision;
  vision.tower = read_tower(section, *tower, written ? tower->sizes : row.unwritten);
  if (section.flag({"vision_use_head"}, type == "siglip_vision_model") &&
      row.projector == ProjectorKind::pooled) {
    decoder.unfollowed.emplace_back("vision_use_head");
  }
  switch (row.projector) {
    case ProjectorKind::two_layers:
      read_llava(config, vision, decoder);
      break;
    case ProjectorKind::pooled:
      read_gemma3(config, vision, decoder);
      break;
    case ProjectorKind::merged:
      break;
  }
  return vision;
}

}  // namespace memest::hf
