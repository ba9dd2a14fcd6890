#include "graph/parameters/nanotron_parameters.hpp"

#include <utility>

#include "memest/spec/inventory.hpp"

namespace memest {
namespace {

class LlamaForTraining {
 public:
  LlamaForTraining(const DecoderSpec& decoder, const LoweringPolicy& policy)
      : decoder_(decoder), policy_(policy) {}

  void write(const ModelPart& part) {
    inventory_.repeat(1);
    write_buffers_of_sends();
    if (part.embedding) {
      inventory_.add(ParameterTensor{.name = "model.token_position_embeddings.weight",
                                     .shape = {rows_of_vocabulary(), decoder_.hidden_size},
                                     .role = ParameterRole::embedding,
                                     .output_head = decoder_.tied_embeddings});
    }
    if (part.count > 0) {
      inventory_.repeat(part.count);
      write_layer();
      inventory_.repeat(1);
    }
    if (!part.head) return;
    inventory_.rms_norm("model.final_layer_norm", decoder_.hidden_size);
    // tie_parameters: the last stage has a copy of the first one's weight.
    if (decoder_.tied_embeddings && part.embedding) return;
    inventory_.add(ParameterTensor{.name = "model.lm_head.weight",
                                   .shape = {rows_of_vocabulary(), decoder_.hidden_size},
                                   .output_head = decoder_.tied_embeddings});
  }

  [[nodiscard]] Inventory take() && { return std::move(inventory_).take(); }

 private:
  [[nodiscard]] std::int64_t rows_of_vocabulary() const {
    return decoder_.vocab_size / policy_.tensor;
  }

  /// P2P.__init__: what stages tell each other of the tensors that they send.
  void write_buffers_of_sends() {
    constexpr std::int64_t kFirst = 7;
    constexpr std::int64_t kSecond = 1024;
    for (const std::int64_t size : {kFirst, kSecond}) {
      inventory_.add(BufferTensor{.name = "model.p2p", .shape = {size}, .dtype = DType::int64});
    }
  }

  void write_layer() {
    const auto& attention = std::get<SoftmaxAttention>(decoder_.attention);
    const auto& dense = std::get<DenseFeedForward>(decoder_.kinds.front().feed_forward);
    const std::int64_t hidden = decoder_.hidden_size;
    const std::int64_t ranks = policy_.tensor;
    const std::int64_t of_heads = attention.heads / ranks * attention.head_dim;
    const std::int64_t of_groups = attention.kv_heads / ranks * attention.head_dim;
    const std::int64_t size = dense.size / ranks;
    inventory_.rms_norm("model.decoder.input_layernorm", hidden);
    inventory_.projection("model.decoder.attn.qkv_proj", {of_heads + 2 * of_groups, hidden});
    // flash-attn's RotaryEmbedding, one a layer: its first forward makes cosines and sines in the
    // type of the queries (_update_cos_sin_cache), and keeps them.
    const std::int64_t half = attention.head_dim / 2;
    const auto keep = [&](const char* name, std::vector<std::int64_t> shape) {
      inventory_.add(BufferTensor{
          .name = name, .shape = std::move(shape), .dtype = policy_.weights, .as_weights = true});
    };
    keep("model.decoder.attn.flash_rotary_embedding.inv_freq", {half});
    keep("model.decoder.attn.flash_rotary_embedding._cos_cached", {policy_.seq_len, half});
    keep("model.decoder.attn.flash_rotary_embedding._sin_cached", {policy_.seq_len, half});
    inventory_.projection("model.decoder.attn.o_proj",
                          {hidden, of_heads, false, ParameterModule::attention_output});
    inventory_.rms_norm("model.decoder.post_attention_layernorm", hidden);
    inventory_.projection("model.decoder.mlp.gate_up_proj", {2 * size, hidden});
    inventory_.projection("model.decoder.mlp.down_proj",
                          {hidden, size, false, ParameterModule::feed_forward_down});
  }

  const DecoderSpec& decoder_;
  const LoweringPolicy& policy_;
  InventoryBuilder inventory_;
};

}  // namespace

Inventory parameters_of_nanotron(const DecoderSpec& decoder, const LoweringPolicy& policy) {
  LlamaForTraining model(decoder, policy);
  if (policy.parts.empty()) model.write({.first = 0, .count = decoder.layers()});
  for (const ModelPart& part : policy.parts) model.write(part);
  return std::move(model).take();
}

}  // namespace memest
