// Vision transformers and convolutional networks. transformers 5.17, models/*/configuration_*.py
// (defaults) and modeling_*.py.
#include <array>
#include <utility>

#include "memest/units/int128.hpp"
#include "reader/hf/decoder_config.hpp"
#include "reader/hf/inventory_config.hpp"

namespace memest::hf {
namespace {

using enum HeadPart;
constexpr std::array kVisionHeads = {
    HeadRow{"ForImageClassification", classifier},
    HeadRow{"Model", none, true},
};

/// A side of an image or patch: one number, or height and width.
struct Area {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

Area read_area(ConfigReader& config, Keys keys, std::int64_t fallback) {
  const Value* const value = config.find(keys);
  if (value == nullptr || value->kind != ValueKind::sequence) {
    const std::int64_t side = config.size(keys, fallback);
    return {side, side};
  }
  const std::vector<std::int64_t> sides = config.sizes(keys, {fallback, fallback});
  if (sides.size() == 2 && sides[0] > 0 && sides[1] > 0) return {sides[0], sides[1]};
  config.error(keys, "a size is one number, or height and width");
  return {fallback, fallback};
}

struct Patches {
  Area patch;
  std::int64_t count = 0;
  std::int64_t channels = 0;
};

Patches read_patches(ConfigReader& config, std::int64_t image, std::int64_t patch) {
  const Area image_area = read_area(config, {"image_size"}, image);
  const Area patch_area = read_area(config, {"patch_size"}, patch);
  return {patch_area,
          (image_area.height / patch_area.height) * (image_area.width / patch_area.width),
          config.size({"num_channels"}, 3)};
}

void write_patch_embedding(InventoryBuilder& inventory, const std::string& name,
                           std::int64_t hidden, const Patches& patches) {
  write_kernel(inventory, name,
               {hidden, patches.channels, patches.patch.height, patches.patch.width});
  write_bias(inventory, name, hidden);
}

struct VitSizes {
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  Patches patches;
};

VitSizes read_vit_sizes(ConfigReader& config, std::int64_t patch) {
  VitSizes sizes;
  sizes.hidden = config.size({"hidden_size"}, 768);
  sizes.layers = read_layers(config, {"num_hidden_layers"}, 12);
  sizes.patches = read_patches(config, 224, patch);
  check_heads(config, {"num_attention_heads"}, sizes.hidden,
              config.size({"num_attention_heads"}, 12));
  return sizes;
}

/// ViT and DeiT, which has one token more.
template <bool kDistilled>
ReadModel read_vit(ConfigReader& config) {
  InventoryBuilder inventory;
  const auto [hidden, layers, patches] = read_vit_sizes(config, 16);
  const HeadRow& head = choose_head(config, kVisionHeads);
  const std::int64_t ffn = config.size({"intermediate_size"}, 3072);
  // DeiTEmbeddings: num_patches + 2, for the class and the distillation token. 224 / 16: 196 + 2.
  const std::int64_t tokens = kDistilled ? 2 : 1;
  write_other(inventory, "embeddings.cls_token", {1, 1, hidden});
  if (kDistilled) write_other(inventory, "embeddings.distillation_token", {1, 1, hidden});
  write_other(inventory, "embeddings.position_embeddings", {1, patches.count + tokens, hidden});
  write_patch_embedding(inventory, "embeddings.patch_embeddings.projection", hidden, patches);
  const bool qkv_bias = config.flag({"qkv_bias"}, true);
  for (const char* part : {"attention.q_proj", "attention.k_proj", "attention.v_proj"}) {
    inventory.projection(part, {hidden, hidden, qkv_bias}, layers);
  }
  inventory.projection("attention.o_proj", {hidden, hidden, true}, layers);
  inventory.layer_norm("layernorm_before", hidden, layers);
  inventory.layer_norm("layernorm_after", hidden, layers);
  inventory.projection("mlp.fc1", {ffn, hidden, true}, layers);
  inventory.projection("mlp.fc2", {hidden, ffn, true}, layers);
  inventory.layer_norm("layernorm", hidden);
  // ViTForImageClassification builds ViTModel(add_pooling_layer=False).
  if (head.pooler) {
    inventory.projection("pooler.dense",
                         {config.size({"pooler_output_size"}, hidden), hidden, true});
  }
  if (head.part == classifier) {
    inventory.projection("classifier", {read_labels(config), hidden, true});
  }
  return {Family::vision, std::move(inventory).take()};
}

void write_dinov2_feed_forward(ConfigReader& config, InventoryBuilder& inventory,
                               std::int64_t hidden, std::int64_t layers) {
  const std::int64_t ffn = config.scaled_size({"mlp_ratio"}, 4, hidden);
  if (config.flag({"use_swiglu_ffn"}, false)) {
    // Dinov2SwiGLUFFN: hidden 1536, mlp_ratio 4: 6144 · 2 / 3 = 4096, twice in weights_in.
    // int(ffn * 2 / 3), rounded up to a multiple of 8
    const std::int64_t gated = (ffn * 2 / 3 + 7) / 8 * 8;
    inventory.projection("mlp.weights_in", {2 * gated, hidden, true}, layers);
    inventory.projection("mlp.weights_out", {hidden, gated, true}, layers);
  } else {
    inventory.projection("mlp.fc1", {ffn, hidden, true}, layers);
    inventory.projection("mlp.fc2", {hidden, ffn, true}, layers);
  }
}

ReadModel read_dinov2(ConfigReader& config) {
  InventoryBuilder inventory;
  const auto [hidden, layers, patches] = read_vit_sizes(config, 14);
  const HeadRow& head = choose_head(config, kVisionHeads);
  write_other(inventory, "embeddings.cls_token", {1, 1, hidden});
  // Dinov2Embeddings: a parameter of every class, though only masked training uses it.
  if (config.flag({"use_mask_token"}, true)) {
    write_other(inventory, "embeddings.mask_token", {1, hidden});
  }
  write_other(inventory, "embeddings.position_embeddings", {1, patches.count + 1, hidden});
  write_patch_embedding(inventory, "embeddings.patch_embeddings.projection", hidden, patches);
  const bool qkv_bias = config.flag({"qkv_bias"}, true);
  for (const char* part :
       {"attention.attention.query", "attention.attention.key", "attention.attention.value"}) {
    inventory.projection(part, {hidden, hidden, qkv_bias}, layers);
  }
  inventory.projection("attention.output.dense", {hidden, hidden, true}, layers);
  inventory.layer_norm("norm1", hidden, layers);
  inventory.layer_norm("norm2", hidden, layers);
  write_other(inventory, "layer_scale1.lambda1", {hidden}, layers);
  write_other(inventory, "layer_scale2.lambda1", {hidden}, layers);
  write_dinov2_feed_forward(config, inventory, hidden, layers);
  inventory.layer_norm("layernorm", hidden);
  if (head.part == classifier) {  // of the class token and the mean of the patches
    inventory.projection("classifier", {read_labels(config), 2 * hidden, true});
  }
  return {Family::vision, std::move(inventory).take()};
}

/// Depths and widths of the stages, which must be as many.
struct Stages {
  std::vector<std::int64_t> depths;
  std::vector<std::int64_t> widths;
};

Stages read_stages(ConfigReader& config, Stages defaults) {
  Stages stages{config.sizes({"depths"}, defaults.depths),
                config.sizes({"hidden_sizes"}, defaults.widths)};
  if (stages.depths.size() == stages.widths.size() && !stages.depths.empty()) return stages;
  config.error({"depths"}, "'depths' has " + std::to_string(stages.depths.size()) +
                               " stages, 'hidden_sizes' " + std::to_string(stages.widths.size()));
  return defaults;
}

/// A convolution without a bias and its batch normalization.
void write_conv_norm(InventoryBuilder& inventory, const std::string& name,
                     std::vector<std::int64_t> shape) {
  const std::int64_t channels = shape.front();
  // ResNetConvLayer: Conv2d(bias=False) and BatchNorm2d, whose running mean, variance and count are
  // buffers.
  write_kernel(inventory, name + ".convolution", std::move(shape));
  inventory.layer_norm(name + ".normalization", channels);
  for (const char* statistic : {".normalization.running_mean", ".normalization.running_var"}) {
    inventory.add(BufferTensor{.name = name + statistic, .shape = {channels}});
  }
  inventory.add(BufferTensor{
      .name = name + ".normalization.num_batches_tracked", .shape = {}, .dtype = DType::int64});
}

struct ResidualLayer {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bottleneck = true;
  bool shortcut = false;  ///< a convolution on the way around, because the shape changes
};

void write_residual_layer(InventoryBuilder& inventory, const ResidualLayer& layer) {
  const auto [in, out, bottleneck, shortcut] = layer;
  if (shortcut) write_conv_norm(inventory, "shortcut", {out, in, 1, 1});
  if (bottleneck) {
    // ResNetBottleNeckLayer.reduction is 4, no key of the config.
    const std::int64_t reduced = out / 4;
    write_conv_norm(inventory, "layer", {reduced, in, 1, 1});
    write_conv_norm(inventory, "layer", {reduced, reduced, 3, 3});
    write_conv_norm(inventory, "layer", {out, reduced, 1, 1});
  } else {
    write_conv_norm(inventory, "layer", {out, in, 3, 3});
    write_conv_norm(inventory, "layer", {out, out, 3, 3});
  }
}

ReadModel read_resnet(ConfigReader& config) {
  InventoryBuilder inventory;
  const HeadRow& head = choose_head(config, kVisionHeads);
  const Stages stages = read_stages(config, {{3, 4, 6, 3}, {256, 512, 1024, 2048}});
  const std::string layer_type = config.word({"layer_type"}, "bottleneck");
  if (layer_type != "bottleneck" && layer_type != "basic") {
    config.error({"layer_type"}, "unknown layer type '" + layer_type + "'",
                 "known are bottleneck and basic");
  }
  const bool bottleneck = layer_type == "bottleneck";
  const bool stride_first = config.flag({"downsample_in_first_stage"}, false);
  std::int64_t in = config.size({"embedding_size"}, 64);
  // ResNetEmbeddings: a 7×7 convolution with stride 2.
  write_conv_norm(inventory, "embedder", {in, config.size({"num_channels"}, 3), 7, 7});
  for (std::size_t stage = 0; stage < stages.depths.size(); ++stage) {
    const std::int64_t out = stages.widths[stage];
    for (std::int64_t layer = 0; layer < stages.depths[stage]; ++layer) {
      // ResNetStage's first layer has stride 2, that of the first stage only with
      // downsample_in_first_stage; should_apply_shortcut = in_channels != out_channels or stride !=
      // 1.
      const bool strides = layer == 0 && (stage > 0 || stride_first);
      write_residual_layer(inventory, {in, out, bottleneck, in != out || strides});
      in = out;
    }
  }
  if (head.part == classifier) inventory.projection("classifier", {read_labels(config), in, true});
  return {Family::convnet, std::move(inventory).take()};
}

void write_convnext_layers(InventoryBuilder& inventory, std::int64_t width, std::int64_t depth) {
  write_other(inventory, "layer_scale_parameter", {width}, depth);
  // Depthwise (groups=dim): a kernel is one channel deep. The pointwise ones are nn.Linear.
  write_kernel(inventory, "dwconv", {width, 1, 7, 7}, depth);
  write_bias(inventory, "dwconv", width, depth);
  inventory.layer_norm("layernorm", width, depth);
  inventory.projection("pwconv1", {4 * width, width, true}, depth);
  inventory.projection("pwconv2", {width, 4 * width, true}, depth);
}

ReadModel read_convnext(ConfigReader& config) {
  InventoryBuilder inventory;
  const HeadRow& head = choose_head(config, kVisionHeads);
  const Stages stages = read_stages(config, {{3, 3, 9, 3}, {96, 192, 384, 768}});
  const Area patch = read_area(config, {"patch_size"}, 4);
  std::int64_t in = stages.widths.front();
  write_kernel(inventory, "embeddings.patch_embeddings",
               {in, config.size({"num_channels"}, 3), patch.height, patch.width});
  write_bias(inventory, "embeddings.patch_embeddings", in);
  inventory.layer_norm("embeddings.layernorm", in);
  for (std::size_t stage = 0; stage < stages.depths.size(); ++stage) {
    const std::int64_t width = stages.widths[stage];
    if (stage > 0) {
      inventory.layer_norm("downsampling_layer.norm", in);
      // ConvNextStage: kernel_size 2 and stride 2, for every stage but the first.
      write_kernel(inventory, "downsampling_layer.conv", {width, in, 2, 2});
      write_bias(inventory, "downsampling_layer.conv", width);
    }
    write_convnext_layers(inventory, width, stages.depths[stage]);
    in = width;
  }
  inventory.layer_norm("layernorm", in);
  if (head.part == classifier) inventory.projection("classifier", {read_labels(config), in, true});
  return {Family::convnet, std::move(inventory).take()};
}

/// The width doubles from stage to stage.
constexpr std::size_t kMostSwinStages = 16;

struct SwinStage {
  std::int64_t width = 0;
  std::int64_t depth = 0;
  std::int64_t heads = 0;
};

void write_swin_stage(ConfigReader& config, InventoryBuilder& inventory, const SwinStage& stage) {
  const auto [width, depth, heads] = stage;
  const std::int64_t window = config.size({"window_size"}, 7);
  const bool qkv_bias = config.flag({"qkv_bias"}, true);
  const std::int64_t ffn = config.scaled_size({"mlp_ratio"}, 4, width);
  for (const char* part : {"attention.q_proj", "attention.k_proj", "attention.v_proj"}) {
    inventory.projection(part, {width, width, qkv_bias}, depth);
  }
  inventory.projection("attention.o_proj", {width, width, true}, depth);
  const std::string table = "attention.relative_position_bias.relative_position_";
  write_other(inventory, table + "bias_table",
              // SwinRelativePositionBias: window 7 has 13 · 13 relative positions, each with a
              // number a head, and an index of 49 · 49.
              {checked_multiply(2 * window - 1, 2 * window - 1), heads}, depth);
  inventory.add(BufferTensor{.name = table + "index",
                             .shape = {window * window, window * window},
                             .dtype = DType::int64,
                             .count = depth});
  inventory.layer_norm("layernorm_before", width, depth);
  inventory.layer_norm("layernorm_after", width, depth);
  inventory.projection("mlp.fc1", {ffn, width, true}, depth);
  inventory.projection("mlp.fc2", {width, ffn, true}, depth);
}

ReadModel read_swin(ConfigReader& config) {
  InventoryBuilder inventory;
  const HeadRow& head = choose_head(config, kVisionHeads);
  const Patches patches = read_patches(config, 224, 4);
  const std::vector<std::int64_t> depths = config.sizes({"depths"}, {2, 2, 6, 2});
  const std::vector<std::int64_t> heads = config.sizes({"num_heads"}, {3, 6, 12, 24});
  std::int64_t width = config.size({"embed_dim"}, 96);
  if (depths.empty() || depths.size() != heads.size() || depths.size() > kMostSwinStages) {
    config.error({"depths"}, "'depths' and 'num_heads' must describe the same few stages");
    return {Family::vision, std::move(inventory).take()};
  }
  write_patch_embedding(inventory, "embeddings.patch_embeddings.projection", width, patches);
  inventory.layer_norm("embeddings.norm", width);
  if (config.flag({"use_absolute_embeddings"}, false)) {
    write_other(inventory, "embeddings.position_embeddings", {1, patches.count, width});
  }
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    write_swin_stage(config, inventory, {width, depths[stage], heads[stage]});
    if (stage + 1 == depths.size()) break;
    // SwinPatchMerging lays four neighbours side by side, norms 4 · dim and projects to 2 · dim
    // without a bias; the last stage has none.
    inventory.projection("downsample.reduction", {2 * width, 4 * width});
    inventory.layer_norm("downsample.norm", 4 * width);
    width *= 2;
  }
  inventory.layer_norm("layernorm", width);
  if (head.part == classifier) {
    inventory.projection("classifier", {read_labels(config), width, true});
  }
  return {Family::vision, std::move(inventory).take()};
}

constexpr std::array kVisionTypes = {
    ModelType{"vit", read_vit<false>},    ModelType{"deit", read_vit<true>},
    ModelType{"dinov2", read_dinov2},     ModelType{"resnet", read_resnet},
    ModelType{"convnext", read_convnext}, ModelType{"swin", read_swin},
};

}  // namespace

std::span<const ModelType> vision_types() { return kVisionTypes; }

}  // namespace memest::hf
