#include "graph/parameters/vision_parameters.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "graph/parameters/adapter_parameters.hpp"
#include "memest/spec/decoder.hpp"
#include "memest/spec/inventory.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Writes what transformers' LlavaModel, Gemma3Model and Qwen2VLModel register before
/// `language_model`.
class VisionParameters {
 public:
  VisionParameters(const VisionPart& vision, std::int64_t hidden_size)
      : vision_(vision),
        tower_(vision.tower),
        names_(names_of(vision.tower)),
        hidden_size_(hidden_size) {}

  Inventory write() && {
    trainable_ = !vision_.frozen.tower;
    if (tower_.packed) {
      write_packed();
      return std::move(inventory_).take();
    }
    write_embeddings();
    const std::int64_t layers = tower_.encoder.layers();
    write_layers(tower_.used, trainable_);
    // Layers behind the one whose result the projector reads.
    unread_ = !vision_.frozen.tower;
    write_layers(layers - tower_.used, false);
    inventory_.repeat(1);
    trainable_ = !vision_.frozen.tower && tower_.reads_normed;
    unread_ = !vision_.frozen.tower && !tower_.reads_normed;
    if (tower_.encoder.final_norm) norm("vision_tower.post_layernorm");
    trainable_ = !vision_.frozen.projector;
    unread_ = false;
    write_projector();
    return std::move(inventory_).take();
  }

 private:
  [[nodiscard]] std::int64_t width() const { return tower_.encoder.hidden_size; }

  void add(ParameterTensor tensor) {
    tensor.trainable = trainable_;
    tensor.unread = unread_;
    inventory_.add(std::move(tensor));
  }
  static std::string joined(std::string_view part, std::string_view module) {
    return std::string(part).append(module);
  }
  void linear(const std::string& name, const Projection& shape) {
    add({.name = name + ".weight", .shape = {shape.out, shape.in}});
    if (!shape.bias) return;
    add({.name = name + ".bias", .shape = {shape.out}, .role = ParameterRole::bias});
  }
  void norm(const std::string& name) {
    for (const char* part : {".weight", ".bias"}) {
      add({.name = name + part, .shape = {width()}, .role = ParameterRole::norm});
    }
  }

  /// CLIPVisionEmbeddings, SiglipVisionEmbeddings: modules, then parameters of their own.
  void write_embeddings() {
    const PatchEmbedding& patches = tower_.patches;
    const std::string name = "vision_tower.embeddings.";
    inventory_.repeat(1);
    add({.name = name + "patch_embedding.weight",
         .shape = {width(), patches.channels, patches.patch, patches.patch}});
    if (patches.bias) {
      add({.name = name + "patch_embedding.bias", .shape = {width()}, .role = ParameterRole::bias});
    }
    add({.name = name + "position_embedding.weight",
         .shape = {patches.positions(), width()},
         .role = ParameterRole::other});
    if (patches.class_token) {
      add({.name = name + "class_embedding", .shape = {width()}, .role = ParameterRole::other});
    }
    inventory_.add(BufferTensor{
        .name = name + "position_ids", .shape = {1, patches.positions()}, .dtype = DType::int64});
    if (tower_.norm_before) norm("vision_tower.pre_layrnorm");
  }

  void write_layers(std::int64_t count, bool trainable) {
    if (count == 0) return;
    trainable_ = trainable;
    // Layers that are not trained are written out beside the projector.
    if (trainable) {
      inventory_.repeat_layer(count);
    } else {
      inventory_.repeat(count);
    }
    const auto& part = std::get<DenseFeedForward>(tower_.encoder.kinds.front().feed_forward);
    // SiglipEncoderLayer registers a norm before what reads it, CLIPEncoderLayer behind.
    const bool norms_first = tower_.model_type == "siglip_vision_model";
    if (norms_first) norm("vision_tower.layer_norm1");
    for (const std::string_view name : {names_.k, names_.v, names_.q, names_.attention_output}) {
      linear(joined("vision_tower.", name), {width(), width(), true});
    }
    norm(norms_first ? "vision_tower.layer_norm2" : "vision_tower.layer_norm1");
    linear(joined("vision_tower.", names_.up), {part.size, width(), part.bias});
    linear(joined("vision_tower.", names_.down), {width(), part.size, part.bias});
    if (!norms_first) norm("vision_tower.layer_norm2");
  }

  void write_projector() {
    const std::string name = "multi_modal_projector.";
    switch (vision_.projector.kind) {
      case ProjectorKind::two_layers:
        linear(name + "linear_1", {hidden_size_, width(), vision_.projector.bias});
        return linear(name + "linear_2", {hidden_size_, hidden_size_, vision_.projector.bias});
      case ProjectorKind::merged:
        return;
      case ProjectorKind::pooled:
        add({.name = name + "mm_soft_emb_norm.weight",
             .shape = {width()},
             .role = ParameterRole::norm});
        return add({.name = name + "mm_input_projection_weight", .shape = {width(), hidden_size_}});
    }
  }

  /// Qwen2VisionTransformerPretrainedModel, Qwen2_5_VisionTransformerPretrainedModel: `visual`.
  void write_packed() {
    const PatchEmbedding& patches = tower_.patches;
    inventory_.repeat(1);
    add({.name = "visual.patch_embed.proj.weight",
         .shape = {width(), patches.channels, patches.frames, patches.patch, patches.patch}});
    const std::int64_t angles = heads_of(tower_.encoder.attention).head_dim / 4;
    for (const char* name : {"inv_freq", "original_inv_freq"}) {
      inventory_.add(BufferTensor{.name = std::string("visual.rotary_pos_emb.") + name,
                                  .shape = {angles},
                                  .dtype = DType::fp32});
    }
    if (trainable_) {
      inventory_.repeat_layer(tower_.encoder.layers());
    } else {
      inventory_.repeat(tower_.encoder.layers());
    }
    const auto& part = std::get<DenseFeedForward>(tower_.encoder.kinds.front().feed_forward);
    for (const char* name : {"visual.blocks.norm1", "visual.blocks.norm2"}) packed_norm(name);
    const std::string_view of_blocks = "visual.blocks.";
    linear(joined(of_blocks, names_.qkv), {3 * width(), width(), true});
    linear(joined(of_blocks, names_.attention_output), {width(), width(), true});
    if (part.gated) linear(joined(of_blocks, names_.gate), {part.size, width(), part.bias});
    linear(joined(of_blocks, names_.up), {part.size, width(), part.bias});
    linear(joined(of_blocks, names_.down), {width(), part.size, part.bias});
    inventory_.repeat(1);
    trainable_ = !vision_.frozen.projector;
    packed_norm("visual.merger.ln_q");
    const std::int64_t row = width() * vision_.projector.pool * vision_.projector.pool;
    linear("visual.merger.mlp.0", {row, row, true});
    linear("visual.merger.mlp.2", {hidden_size_, row, true});
  }

  /// A layer norm, or an RMS norm that has a gain alone.
  void packed_norm(const std::string& name) {
    if (tower_.encoder.norm.kind == NormKind::layernorm) return norm(name);
    add({.name = name + ".weight", .shape = {width()}, .role = ParameterRole::norm});
  }

  const VisionPart& vision_;
  const VisionTower& tower_;
  const DecoderNames& names_;
  std::int64_t hidden_size_;
  bool trainable_ = true;
  bool unread_ = false;
  InventoryBuilder inventory_;
};

/// Whether a target names a linear module of the tower's layers.
bool adapts_tower(const Adapter& adapter, const VisionTower& tower) {
  const DecoderNames& names = names_of(tower);
  const bool fused = heads_of(tower.encoder.attention).layout == QkvLayout::fused;
  const auto& part = std::get<DenseFeedForward>(tower.encoder.kinds.front().feed_forward);
  if (part.gated && adapts(adapter, names.gate)) return true;
  if (fused && adapts(adapter, names.qkv)) return true;
  const std::array projections = {names.q, names.k, names.v};
  const std::array others = {names.attention_output, names.up, names.down};
  const auto is_target = [&](std::string_view module) { return adapts(adapter, module); };
  return std::ranges::any_of(others, is_target) ||
         (!fused && std::ranges::any_of(projections, is_target));
}

}  // namespace

const DecoderNames& names_of(const VisionTower& tower) {
  const auto& part = std::get<DenseFeedForward>(tower.encoder.kinds.front().feed_forward);
  return names_of(tower.packed && part.gated ? "qwen2_5_vl_vision"
                                             : std::string_view(tower.model_type));
}

VisionPart vision_of(const ModelSpec& model) {
  VisionPart vision = *model.vision;
  if (!model.adapter) return vision;
  vision.frozen.tower = vision.frozen.tower || !adapts_tower(*model.adapter, vision.tower);
  vision.frozen.projector = true;
  return vision;
}

Inventory with_vision(const Inventory& of_text, const ModelSpec& model) {
  const VisionPart vision = vision_of(model);
  const std::int64_t hidden_size = std::get<DecoderSpec>(model.architecture).hidden_size;
  Inventory all = VisionParameters(vision, hidden_size).write();
  Inventory decoder = of_text;
  if (model.adapter) {
    if (!vision.frozen.tower) all = with_adapter(all, {*model.adapter});
    decoder = with_adapter(decoder, {*model.adapter});
  }
  const std::size_t parameters = all.parameters.size();
  const std::size_t buffers = all.buffers.size();
  for (ParameterTensor tensor : decoder.parameters) {
    if (vision.frozen.decoder) tensor.trainable = false;
    all.parameters.push_back(std::move(tensor));
  }
  all.buffers.insert(all.buffers.end(), decoder.buffers.begin(), decoder.buffers.end());
  for (PlacementRun run : decoder.placement) {
    for (PlacementStep& step : run.steps) step.row += step.buffer ? buffers : parameters;
    all.placement.push_back(std::move(run));
  }
  return all;
}

}  // namespace memest
