#include "graph/parameters/megatron_parameters.hpp"

#include <optional>
#include <string>
#include <utility>

#include "memest/spec/inventory.hpp"

namespace memest {
namespace {

class GptModel {
 public:
  GptModel(const DecoderSpec& decoder, const LoweringPolicy& policy)
      : decoder_(decoder),
        linears_(policy.te_linears),
        ranks_(policy.tensor),
        expert_ranks_(policy.expert),
        expert_cut_(policy.whole_experts ? 1 : policy.tensor),
        te_(policy.implementation.layers == LayerSpec::te) {}

  void write(const ModelPart& part) {
    inventory_.repeat(1);
    // GPTModel: the embedding is that of stages of prediction too.
    const bool copies = part.head && !part.embedding && decoder_.mtp_layers > 0;
    if (part.embedding || copies) write_embedding(copies);
    // MLASelfAttention has a RotaryEmbedding in every layer.
    if (!std::holds_alternative<LatentAttention>(decoder_.attention)) {
      write_frequencies("rotary_pos_emb.inv_freq");
    }
    for (std::int64_t first = part.first; first < part.first + part.count;) {
      const std::size_t kind = decoder_.kind_of(first);
      std::int64_t next = first + 1;
      narrow_ = is_narrow(first);
      while (next < part.first + part.count && decoder_.kind_of(next) == kind &&
             is_narrow(next) == narrow_) {
        ++next;
      }
      inventory_.repeat(next - first);
      write_layer(decoder_.kinds[kind]);
      inventory_.repeat(1);
      first = next;
    }
    const bool predicts = decoder_.mtp_layers > 0;
    const bool is_last = part.count > 0 && part.first + part.count == decoder_.layers();
    if (predicts ? is_last : part.head) norm("decoder.final_layernorm");
    if (!part.head) return;
    if (predicts) write_predictions();
    // GPTModel: skip_weight_param_allocation where the stage has the embedding too. A last stage of
    // its own keeps a second copy of the tied weight; _allreduce_word_embedding_grads adds up both
    // gradients.
    if (decoder_.tied_embeddings && part.embedding) return;
    inventory_.add(ParameterTensor{.name = "output_layer.weight",
                                   .shape = {decoder_.vocab_size / ranks_, decoder_.hidden_size},
                                   .output_head = decoder_.tied_embeddings,
                                   .shared_embedding = decoder_.tied_embeddings,
                                   .copied = decoder_.tied_embeddings});
  }

  [[nodiscard]] Inventory take() && { return std::move(inventory_).take(); }

 private:
  [[nodiscard]] bool is_narrow(std::int64_t layer) const {
    return linears_ && linears_->quantizes(layer, decoder_.layers());
  }

  /// A linear layer of Transformer Engine, or its equal of Megatron's own.
  void product(const std::string& name, Projection shape) {
    shape.te_linear = narrow_;
    inventory_.projection(name, shape);
  }

  void write_frequencies(const std::string& name) {
    if (!std::holds_alternative<RotaryPosition>(decoder_.position)) return;
    inventory_.add(BufferTensor{.name = name,
                                .shape = {rotary_dim() / 2},
                                .dtype = DType::fp32,
                                .rotary_frequencies = true});
  }

  /// The table of a stage that has the model's input, or (`copied`) of one that predicts tokens.
  void write_embedding(bool copied) {
    const bool shared = decoder_.tied_embeddings || decoder_.mtp_layers > 0;
    inventory_.add(ParameterTensor{.name = "embedding.word_embeddings.weight",
                                   .shape = {decoder_.vocab_size / ranks_, decoder_.hidden_size},
                                   .role = ParameterRole::embedding,
                                   .output_head = decoder_.tied_embeddings,
                                   .shared_embedding = shared,
                                   .copied = copied});
    if (decoder_.embedding_norm) norm("embedding.word_embeddings.norm");
    if (const auto* learned = std::get_if<LearnedPosition>(&decoder_.position)) {
      inventory_.add(ParameterTensor{.name = "embedding.position_embeddings.weight",
                                     .shape = {learned->rows, decoder_.hidden_size},
                                     .role = ParameterRole::embedding,
                                     .module = ParameterModule::positions});
    }
  }

  /// MultiTokenPredictionLayer.__init__: enorm, hnorm, eh_proj, transformer_layer,
  /// final_layernorm. get_fp8_context() alone decides the products' types.
  void write_predictions() {
    narrow_ = linears_ && linears_->recipe != TeRecipe::nvfp4;
    inventory_.repeat(decoder_.mtp_layers);
    for (const char* name : {"mtp.enorm", "mtp.hnorm"}) norm(name);
    product("mtp.eh_proj", {decoder_.hidden_size / ranks_, 2 * decoder_.hidden_size});
    write_layer(decoder_.kinds[decoder_.order.back().kind]);
    norm("mtp.final_layernorm");
    inventory_.repeat(1);
  }

  void write_layer(const LayerKind& kind) {
    std::visit([this](const auto& attention) { write_attention(attention); }, decoder_.attention);
    const bool dense_after = std::holds_alternative<DenseFeedForward>(kind.feed_forward);
    // get_gpt_layer_with_transformer_engine_spec: pre_mlp_layernorm is IdentityOp for a dense
    // layer, whose norm is TELayerNormColumnParallelLinear's; experts have no such product, and a
    // TENorm.
    if (te_ && dense_after) {
      fused_norm("mlp.linear_fc1", decoder_.hidden_size, decoder_.norm.bias);
    } else {
      norm("pre_mlp_layernorm");
    }
    if (const auto* dense = std::get_if<DenseFeedForward>(&kind.feed_forward)) {
      write_mlp("mlp", *dense);
    } else {
      write_experts(std::get<MixtureOfExperts>(kind.feed_forward));
    }
  }

  void write_attention(const SoftmaxAttention& attention) {
    const std::int64_t width = attention.heads * attention.head_dim / ranks_;
    const std::int64_t of_groups = 2 * attention.kv_heads * attention.head_dim / ranks_;
    const std::int64_t hidden = decoder_.hidden_size;
    // TransformerLayer makes input_layernorm first, Attention.__init__ linear_proj, and
    // SelfAttention.__init__, which calls it, linear_qkv, q_layernorm and k_layernorm after.
    if (!te_) norm("input_layernorm");
    if (attention.sinks) {
      inventory_.add(ParameterTensor{.name = "self_attention.core_attention.softmax_offset",
                                     .shape = {attention.heads / ranks_}});
    }
    product("self_attention.linear_proj",
            {hidden, width, attention.output_bias, ParameterModule::attention_output});
    if (te_) fused_norm("self_attention.linear_qkv", hidden, decoder_.norm.bias);
    product("self_attention.linear_qkv", {width + of_groups, hidden, attention.q_bias});
    if (attention.qk_norm == QkNorm::none) return;
    for (const char* name : {"self_attention.q_layernorm", "self_attention.k_layernorm"}) {
      norm_of_heads(name, attention);
    }
  }

  /// Products of latents have their norms within; the one before the latents is a module. Products
  /// into latents are every rank's.
  void write_attention(const LatentAttention& latent) {
    const std::int64_t hidden = decoder_.hidden_size;
    const std::int64_t heads = latent.heads / ranks_;
    const std::int64_t queries = heads * (latent.qk_nope_head_dim + latent.qk_rope_head_dim);
    norm("input_layernorm");
    write_frequencies("self_attention.rotary_pos_emb.inv_freq");
    product("self_attention.linear_proj",
            {hidden, heads * latent.v_head_dim, false, ParameterModule::attention_output});
    if (latent.q_lora_rank == 0) {
      product("self_attention.linear_q_proj", {queries, hidden});
    } else {
      product("self_attention.linear_q_down_proj",
              {latent.q_lora_rank, hidden, false, ParameterModule::into_latents});
      fused_norm("self_attention.linear_q_up_proj", latent.q_lora_rank, false);
      product("self_attention.linear_q_up_proj", {queries, latent.q_lora_rank});
    }
    product("self_attention.linear_kv_down_proj", {latent.kv_lora_rank + latent.qk_rope_head_dim,
                                                   hidden, false, ParameterModule::into_latents});
    fused_norm("self_attention.linear_kv_up_proj", latent.kv_lora_rank, false);
    product("self_attention.linear_kv_up_proj",
            {heads * (latent.qk_nope_head_dim + latent.v_head_dim), latent.kv_lora_rank});
  }

  void write_mlp(const std::string& name, const DenseFeedForward& part) {
    const std::int64_t size = part.size / ranks_;
    const std::int64_t hidden = decoder_.hidden_size;
    product(name + ".linear_fc1", {part.gated ? 2 * size : size, hidden, part.bias});
    product(name + ".linear_fc2", {hidden, size, part.bias, ParameterModule::feed_forward_down});
  }

  /// Experts of other ranks are left out; a token uses top_k of all of them.
  void write_experts(const MixtureOfExperts& experts) {
    const std::int64_t hidden = decoder_.hidden_size;
    inventory_.projection("mlp.router",
                          {experts.experts, hidden, experts.router_bias, ParameterModule::router});
    // TopKRouter with moe_router_enable_expert_bias registers both buffers in fp32, and
    // _maintain_float32_expert_bias holds the bias there when the model is cast.
    if (experts.correction_bias_buffer) {
      for (const char* name : {"mlp.router.local_tokens_per_expert", "mlp.router.expert_bias"}) {
        inventory_.add(
            BufferTensor{.name = name, .shape = {experts.experts}, .dtype = DType::fp32});
      }
    }
    const std::int64_t size = experts.expert_size / expert_cut_;
    ParameterTensor up{.name = "mlp.experts.local_experts.linear_fc1.weight",
                       .shape = {2 * size, hidden},
                       .active_numerator = experts.top_k,
                       .active_denominator = experts.experts,
                       .expert_parallel = expert_ranks_ > 1,
                       .te_linear = narrow_};
    ParameterTensor down = up;
    down.name = "mlp.experts.local_experts.linear_fc2.weight";
    down.shape = {hidden, size};
    const std::int64_t count = experts.experts / expert_ranks_;
    if (te_) {
      // TEGroupedMLP: all first products, then all second ones.
      for (ParameterTensor* grouped : {&up, &down}) {
        grouped->count = count;
        inventory_.add(*grouped);
        if (!experts.expert_bias) continue;
        ParameterTensor bias = *grouped;
        bias.name.replace(bias.name.rfind("weight"), std::string::npos, "bias");
        bias.shape = {grouped->shape.front()};
        bias.role = ParameterRole::bias;
        bias.te_linear = false;
        inventory_.add(bias);
      }
    }
    // SequentialMLP.local_experts: an MLP for each expert.
    for (std::int64_t i = 0; i < count && !te_; ++i) {
      inventory_.add(up);
      inventory_.add(down);
    }
    if (experts.shared_size == 0) return;
    // SharedExpertMLP.gate_weight is made after super().__init__(), but Parameters of a module come
    // before those of its submodules.
    if (experts.shared_gate) {
      inventory_.add(ParameterTensor{.name = "mlp.shared_experts.gate_weight",
                                     .shape = {1, hidden},
                                     .module = ParameterModule::router});
    }
    write_mlp("mlp.shared_experts", {.size = experts.shared_size});
  }

  /// The norm in front of a product, which is part of its module.
  void fused_norm(const std::string& product, std::int64_t size, bool bias) {
    const auto add = [&](const char* name) {
      inventory_.add(
          ParameterTensor{.name = product + name, .shape = {size}, .role = ParameterRole::norm});
    };
    add(".layer_norm_weight");
    if (bias) add(".layer_norm_bias");
  }

  [[nodiscard]] std::int64_t rotary_dim() const {
    return std::get<RotaryPosition>(decoder_.position).rotary_dim;
  }

  /// Adds gain and bias of a norm of queries or keys, head by head.
  void norm_of_heads(const std::string& name, const SoftmaxAttention& attention) {
    ParameterTensor gain{.name = name + ".weight",
                         .shape = {attention.head_dim},
                         .role = ParameterRole::norm,
                         .module = ParameterModule::head_norm};
    inventory_.add(gain);
    if (!attention.qk_norm_kind.bias) return;
    gain.name = name + ".bias";
    inventory_.add(gain);
  }

  void norm(const std::string& name) { norm(name, decoder_.norm, decoder_.hidden_size); }

  void norm(const std::string& name, const Norm& kind, std::int64_t size) {
    if (kind.bias) {
      inventory_.layer_norm(name, size);
    } else {
      inventory_.rms_norm(name, size);
    }
  }

  const DecoderSpec& decoder_;
  std::optional<TeLinears> linears_;
  bool narrow_ = false;  ///< the products of the layer that is written
  std::int64_t ranks_;
  std::int64_t expert_ranks_;
  std::int64_t expert_cut_;  ///< ranks that have a part of the same expert each
  bool te_;                  ///< a norm's gain is its product's
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
