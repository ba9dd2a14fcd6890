// Models of several towers: CLIP and SigLIP.
// transformers 5.17, models/clip, siglip and gemma3.
#include <array>
#include <utility>

#include "reader/hf/decoder_config.hpp"
#include "reader/hf/inventory_config.hpp"
#include "reader/hf/llama_like.hpp"

namespace memest::hf {
namespace {

constexpr LayerNames kLayer{
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj",
    "layer_norm1",      "mlp.fc1",          "mlp.fc2",          "layer_norm2"};
constexpr std::array kModelOnly = {HeadRow{"Model", HeadPart::none}};

struct TowerDefaults {
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  std::int64_t heads = 0;
};

LayerSizes read_tower(ConfigReader& config, const TowerDefaults& defaults) {
  const std::int64_t hidden = config.size({"hidden_size"}, defaults.hidden);
  check_heads(config, {"num_attention_heads"}, hidden,
              config.size({"num_attention_heads"}, defaults.heads));
  return {hidden, config.size({"intermediate_size"}, defaults.ffn),
          read_layers(config, {"num_hidden_layers"}, 12)};
}

void write_position_ids(InventoryBuilder& inventory, const std::string& tower,
                        std::int64_t positions) {
  inventory.add(BufferTensor{
      .name = tower + ".embeddings.position_ids", .shape = {1, positions}, .dtype = DType::int64});
}

struct TextDefaults {
  std::int64_t vocab = 0;
  std::int64_t positions = 0;
  TowerDefaults tower;
};

std::int64_t write_text_tower(ConfigReader& config, InventoryBuilder& inventory,
                              const TextDefaults& defaults) {
  const LayerSizes sizes = read_tower(config, defaults.tower);
  const std::int64_t positions = config.size({"max_position_embeddings"}, defaults.positions);
  inventory.embedding("text_model.embeddings.token_embedding",
                      config.size({"vocab_size"}, defaults.vocab), sizes.hidden);
  inventory.embedding("text_model.embeddings.position_embedding", positions, sizes.hidden);
  write_layers(inventory, "text_model.", kLayer, sizes);
  inventory.layer_norm("text_model.final_layer_norm", sizes.hidden);
  write_position_ids(inventory, "text_model", positions);
  return sizes.hidden;
}

struct VisionDefaults {
  std::int64_t patch = 0;
  bool clip = false;  ///< a class token, a norm before the layers, patches without bias
};

std::int64_t write_vision_tower(ConfigReader& config, InventoryBuilder& inventory,
                                const VisionDefaults& defaults) {
  const LayerSizes sizes = read_tower(config, {768, 3072, 12});
  const std::int64_t side = config.size({"image_size"}, 224);
  const std::int64_t patch = config.size({"patch_size"}, defaults.patch);
  const std::int64_t positions = (side / patch) * (side / patch) + (defaults.clip ? 1 : 0);
  const std::string embeddings = "vision_model.embeddings";
  write_kernel(inventory, embeddings + ".patch_embedding",
               {sizes.hidden, config.size({"num_channels"}, 3), patch, patch});
  // CLIPVisionEmbeddings: Conv2d(bias=False), a class_embedding and one position more for it;
  // "pre_layrnorm" is the class's own spelling.
  if (defaults.clip) {
    write_other(inventory, embeddings + ".class_embedding", {sizes.hidden});
    inventory.layer_norm("vision_model.pre_layrnorm", sizes.hidden);
  } else {
    write_bias(inventory, embeddings + ".patch_embedding", sizes.hidden);
  }
  write_other(inventory, embeddings + ".position_embedding.weight", {positions, sizes.hidden});
  write_layers(inventory, "vision_model.", kLayer, sizes);
  inventory.layer_norm("vision_model.post_layernorm", sizes.hidden);
  write_position_ids(inventory, "vision_model", positions);
  // SiglipMultiheadAttentionPoolingHead: nn.MultiheadAttention, whose q, k and v are one parameter.
  if (defaults.clip) return sizes.hidden;
  const std::string pool = "vision_model.head";
  write_other(inventory, pool + ".probe", {1, 1, sizes.hidden});
  inventory.add(ParameterTensor{.name = pool + ".attention.in_proj_weight",
                                .shape = {3 * sizes.hidden, sizes.hidden}});
  inventory.add(ParameterTensor{.name = pool + ".attention.in_proj_bias",
                                .shape = {3 * sizes.hidden},
                                .role = ParameterRole::bias});
  inventory.projection(pool + ".attention.out_proj", {sizes.hidden, sizes.hidden, true});
  inventory.layer_norm(pool + ".layernorm", sizes.hidden);
  inventory.projection(pool + ".mlp.fc1", {sizes.ffn, sizes.hidden, true});
  inventory.projection(pool + ".mlp.fc2", {sizes.hidden, sizes.ffn, true});
  return sizes.hidden;
}

ReadModel read_clip(ConfigReader& config) {
  InventoryBuilder inventory;
  choose_head(config, kModelOnly);
  ConfigReader text = config.section("text_config");
  ConfigReader vision = config.section("vision_config");
  const std::int64_t projected = config.size({"projection_dim"}, 512);
  const std::int64_t text_size = write_text_tower(text, inventory, {49408, 77, {512, 2048, 8}});
  const std::int64_t vision_size = write_vision_tower(vision, inventory, {32, true});
  // CLIPModel projects both towers to projection_dim without a bias.
  inventory.projection("visual_projection", {projected, vision_size});
  inventory.projection("text_projection", {projected, text_size});
  // torch.tensor(logit_scale_init_value): a parameter without a dimension; SigLIP's have one.
  write_other(inventory, "logit_scale", {});
  return {Family::vision, std::move(inventory).take()};
}

ReadModel read_siglip(ConfigReader& config) {
  InventoryBuilder inventory;
  choose_head(config, kModelOnly);
  ConfigReader text = config.section("text_config");
  ConfigReader vision = config.section("vision_config");
  const std::int64_t text_size = write_text_tower(text, inventory, {32000, 64, {768, 3072, 12}});
  // SiglipTextModel.head has a bias; SigLIP has no projection of the images.
  inventory.projection("text_model.head",
                       {text.size({"projection_size"}, text_size), text_size, true});
  write_vision_tower(vision, inventory, {16, false});
  write_other(inventory, "logit_scale", {1});
  write_other(inventory, "logit_bias", {1});
  return {Family::vision, std::move(inventory).take()};
}

constexpr std::array kTowersTypes = {
    ModelType{"clip", read_clip},
    ModelType{"siglip", read_siglip},
};

}  // namespace

std::span<const ModelType> tower_types() { return kTowersTypes; }

}  // namespace memest::hf
