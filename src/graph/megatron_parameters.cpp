#include "megatron_parameters.hpp"

#include <string>
#include <utility>

#include "memest/spec/inventory.hpp"

namespace memest {
namespace {

class GptModel {
 public:
  GptModel(const DecoderSpec& decoder, const LoweringPolicy& policy)
      : decoder_(decoder),
        attention_(std::get<SoftmaxAttention>(decoder.attention)),
        feed_forward_(std::get<DenseFeedForward>(decoder.kinds.front().feed_forward)),
        ranks_(policy.tensor),
        te_(policy.implementation.layers == LayerSpec::te) {}

  void write(const ModelPart& part) {
    inventory_.repeat(1);
    if (part.embedding) write_embedding();
    if (std::holds_alternative<RotaryPosition>(decoder_.position)) {
      inventory_.add(BufferTensor{.name = "rotary_pos_emb.inv_freq",
                                  .shape = {attention_.head_dim / 2},
                                  .dtype = DType::fp32});
    }
    if (part.count > 0) {
      inventory_.repeat(part.count);
      write_layer();
      inventory_.repeat(1);
    }
    if (!part.head) return;
    norm("decoder.final_layernorm");
    if (decoder_.tied_embeddings && part.embedding) return;
    inventory_.add(ParameterTensor{.name = "output_layer.weight",
                                   .shape = {decoder_.vocab_size / ranks_, decoder_.hidden_size},
                                   .output_head = decoder_.tied_embeddings});
  }

  [[nodiscard]] Inventory take() && { return std::move(inventory_).take(); }

 private:
  void write_embedding() {
    inventory_.add(ParameterTensor{.name = "embedding.word_embeddings.weight",
                                   .shape = {decoder_.vocab_size / ranks_, decoder_.hidden_size},
                                   .role = ParameterRole::embedding,
                                   .output_head = decoder_.tied_embeddings});
    if (const auto* learned = std::get_if<LearnedPosition>(&decoder_.position)) {
      inventory_.embedding("embedding.position_embeddings", learned->rows, decoder_.hidden_size);
    }
  }

  void write_layer() {
    const std::int64_t width = attention_.heads * attention_.head_dim / ranks_;
    const std::int64_t of_groups = 2 * attention_.kv_heads * attention_.head_dim / ranks_;
    const std::int64_t size = feed_forward_.size / ranks_;
    const std::int64_t hidden = decoder_.hidden_size;
    if (!te_) norm("input_layernorm");
    inventory_.projection("self_attention.linear_proj", {hidden, width, attention_.output_bias});
    if (te_) fused_norm("self_attention.linear_qkv");
    inventory_.projection("self_attention.linear_qkv",
                          {width + of_groups, hidden, attention_.q_bias});
    if (te_) {
      fused_norm("mlp.linear_fc1");
    } else {
      norm("pre_mlp_layernorm");
    }
    inventory_.projection("mlp.linear_fc1",
                          {feed_forward_.gated ? 2 * size : size, hidden, feed_forward_.bias});
    inventory_.projection("mlp.linear_fc2", {hidden, size, feed_forward_.bias});
  }

  /// The norm in front of a product, which is part of its module.
  void fused_norm(const std::string& product) {
    const auto add = [&](const char* name) {
      inventory_.add(ParameterTensor{
          .name = product + name, .shape = {decoder_.hidden_size}, .role = ParameterRole::norm});
    };
    add(".layer_norm_weight");
    if (decoder_.norm.bias) add(".layer_norm_bias");
  }

  void norm(const std::string& name) {
    if (decoder_.norm.bias) {
      inventory_.layer_norm(name, decoder_.hidden_size);
    } else {
      inventory_.rms_norm(name, decoder_.hidden_size);
    }
  }

  const DecoderSpec& decoder_;
  const SoftmaxAttention& attention_;
  const DenseFeedForward& feed_forward_;
  std::int64_t ranks_;
  bool te_;  ///< a norm's gain is its product's
  InventoryBuilder inventory_;
};

}  // namespace

Inventory parameters_of_megatron(const DecoderSpec& decoder, const LoweringPolicy& policy) {
  GptModel model(decoder, policy);
  if (policy.parts.empty()) {
    model.write({.first = 0, .count = decoder.layers(), .embedding = true, .head = true});
  }
  for (const ModelPart& part : policy.parts) model.write(part);
  return std::move(model).take();
}

}  // namespace memest
