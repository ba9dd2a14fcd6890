#include "decoder_parameters.hpp"

#include <string>
#include <utility>

#include "memest/spec/inventory.hpp"
#include "memest/units/int128.hpp"
#include "parameter_names.hpp"

namespace memest {
namespace {

class DecoderParameters {
 public:
  DecoderParameters(const DecoderSpec& decoder, std::string_view model_type)
      : decoder_(decoder), names_(names_of(model_type)), layers_(decoder.layers()) {}

  Inventory write() && {
    write_embedding();
    if (names_.final_norm_first) write_final_norm();
    write_layers();
    if (!names_.final_norm_first) write_final_norm();
    write_head();
    write_buffers();
    return std::move(inventory_).take();
  }

 private:
  void matrix(std::string_view name, Projection shape, std::int64_t count) {
    if (!names_.stored_in_out) {
      inventory_.projection(std::string(name), shape, count);
      return;
    }
    inventory_.projection(std::string(name), {shape.in, shape.out}, count);
    if (shape.bias) bias(std::string(name) + ".bias", shape.out, count);
  }

  void bias(std::string name, std::int64_t size, std::int64_t count) {
    inventory_.add(ParameterTensor{
        .name = std::move(name), .shape = {size}, .role = ParameterRole::bias, .count = count});
  }

  void norm(std::string_view name, const Norm& kind, std::vector<std::int64_t> shape,
            std::int64_t count) {
    if (kind.gain == NormGain::none) return;
    inventory_.add(ParameterTensor{.name = std::string(name) + ".weight",
                                   .shape = shape,
                                   .role = ParameterRole::norm,
                                   .count = count});
    if (!kind.bias) return;
    inventory_.add(ParameterTensor{.name = std::string(name) + ".bias",
                                   .shape = std::move(shape),
                                   .role = ParameterRole::norm,
                                   .count = count});
  }

  void write_embedding() {
    const std::int64_t hidden = decoder_.hidden_size;
    inventory_.add(ParameterTensor{
        .name = std::string(names_.embedding) + ".weight",
        .shape = {decoder_.vocab_size, decoder_.embedding_size},
        .role = ParameterRole::embedding,
        .output_head = decoder_.head == DecoderHead::language_model && decoder_.tied_embeddings});
    if (const auto* learned = std::get_if<LearnedPosition>(&decoder_.position)) {
      inventory_.embedding(std::string(names_.position), learned->rows, hidden);
    }
    if (decoder_.embedding_norm) norm(names_.embedding_norm, decoder_.norm, {hidden}, 1);
    if (decoder_.embedding_size == hidden) return;
    inventory_.projection("project_out", {decoder_.embedding_size, hidden});
    inventory_.projection("project_in", {hidden, decoder_.embedding_size});
  }

  void write_layers() {
    const std::vector<std::string_view> norms = layer_norms();
    const auto write_norm = [&](std::size_t index) {
      if (index < norms.size()) norm(norms[index], decoder_.norm, {decoder_.hidden_size}, layers_);
    };
    const auto write_norms = [&] {
      for (std::size_t i = 0; i < norms.size(); ++i) write_norm(i);
    };
    switch (names_.layer_order) {
      case LayerOrder::norms_last:
        write_attention();
        write_feed_forward();
        return write_norms();
      case LayerOrder::norms_first:
        write_norms();
        write_attention();
        return write_feed_forward();
      case LayerOrder::norms_before:
        write_norm(0);
        write_attention();
        write_norm(1);
        return write_feed_forward();
      case LayerOrder::norms_after:
        write_attention();
        write_norm(0);
        write_feed_forward();
        return write_norm(1);
    }
  }

  void write_attention() {
    std::visit([this](const auto& attention) { write_attention(attention); }, decoder_.attention);
  }

  void write_feed_forward() {
    for (const LayerRun& run : decoder_.order) {
      std::visit([&](const auto& part) { write_feed_forward(part, run.repeat); },
                 decoder_.kinds[run.kind].feed_forward);
    }
  }

  void write_attention(const SoftmaxAttention& attention) {
    const std::int64_t hidden = decoder_.hidden_size;
    const std::int64_t q_size = checked_multiply(attention.heads, attention.head_dim);
    const std::int64_t kv_size = checked_multiply(attention.kv_heads, attention.head_dim);
    const auto write_output = [&] {
      matrix(names_.attention_output, {hidden, q_size, attention.output_bias}, layers_);
    };
    const auto write_q = [&] { matrix(names_.q, {q_size, hidden, attention.q_bias}, layers_); };
    const bool output_first = names_.projection_order == ProjectionOrder::output_q_k_v;
    const bool q_last = names_.projection_order == ProjectionOrder::k_v_q_output;
    if (output_first) write_output();
    if (attention.layout == QkvLayout::fused) {
      const std::int64_t width = checked_add(q_size, checked_multiply(kv_size, std::int64_t{2}));
      matrix(names_.qkv, {width, hidden, attention.q_bias}, layers_);
    } else {
      if (!q_last) write_q();
      matrix(names_.k, {kv_size, hidden, attention.kv_bias}, layers_);
      matrix(names_.v, {kv_size, hidden, attention.kv_bias}, layers_);
      if (q_last) write_q();
    }
    if (!output_first) write_output();
    query_key_norm(names_.q_norm, attention, attention.heads);
    query_key_norm(names_.k_norm, attention, attention.kv_heads);
    if (attention.sinks) {
      inventory_.add(ParameterTensor{.name = "self_attn.sinks",
                                     .shape = {attention.heads},
                                     .role = ParameterRole::other,
                                     .count = layers_});
    }
  }

  void query_key_norm(std::string_view name, const SoftmaxAttention& attention,
                      std::int64_t heads) {
    const Norm& kind = attention.qk_norm_kind;
    switch (attention.qk_norm) {
      case QkNorm::none:
        return;
      case QkNorm::per_head:
        return norm(name, kind, {attention.head_dim}, layers_);
      case QkNorm::per_head_own:
        if (names_.one_tensor_a_head) {
          return norm(name, kind, {attention.head_dim}, checked_multiply(layers_, heads));
        }
        return norm(name, kind, {heads, attention.head_dim}, layers_);
      case QkNorm::full_width:
        return norm(name, kind, {checked_multiply(heads, attention.head_dim)}, layers_);
    }
  }

  void write_attention(const LatentAttention& attention) {
    const std::int64_t hidden = decoder_.hidden_size;
    const std::int64_t q_size = checked_multiply(
        attention.heads, checked_add(attention.qk_nope_head_dim, attention.qk_rope_head_dim));
    const std::int64_t kv_size = checked_multiply(
        attention.heads, checked_add(attention.qk_nope_head_dim, attention.v_head_dim));
    const std::int64_t latent = checked_add(attention.kv_lora_rank, attention.qk_rope_head_dim);
    if (attention.q_lora_rank == 0) {
      matrix("self_attn.q_proj", {q_size, hidden}, layers_);
    } else {
      matrix("self_attn.q_a_proj", {attention.q_lora_rank, hidden, attention.bias}, layers_);
      inventory_.rms_norm("self_attn.q_a_layernorm", attention.q_lora_rank, layers_);
      matrix("self_attn.q_b_proj", {q_size, attention.q_lora_rank}, layers_);
    }
    matrix("self_attn.kv_a_proj_with_mqa", {latent, hidden, attention.bias}, layers_);
    inventory_.rms_norm("self_attn.kv_a_layernorm", attention.kv_lora_rank, layers_);
    matrix("self_attn.kv_b_proj", {kv_size, attention.kv_lora_rank}, layers_);
    const std::int64_t values = checked_multiply(attention.heads, attention.v_head_dim);
    matrix(names_.attention_output, {hidden, values, attention.bias}, layers_);
  }

  void write_feed_forward(const DenseFeedForward& part, std::int64_t count) {
    const std::int64_t hidden = decoder_.hidden_size;
    if (part.gated && part.fused_gate_up) {
      const std::int64_t width = checked_multiply(part.size, std::int64_t{2});
      matrix(names_.gate_up, {width, hidden, part.bias}, count);
    } else {
      if (part.gated) matrix(names_.gate, {part.size, hidden, part.bias}, count);
      matrix(names_.up, {part.size, hidden, part.bias}, count);
    }
    matrix(names_.down, {hidden, part.size, part.bias}, count);
  }

  void write_feed_forward(const MixtureOfExperts& moe, std::int64_t count) {
    const std::int64_t hidden = decoder_.hidden_size;
    const std::string router(names_.router);
    matrix(router, {moe.experts, hidden, moe.router_bias}, count);
    const std::int64_t width = checked_multiply(moe.expert_size, std::int64_t{moe.gated ? 2 : 1});
    const std::string experts(names_.experts);
    expert_matrix(experts + (moe.gated ? ".gate_up_proj" : ".up_proj"), {width, hidden}, moe,
                  count);
    expert_matrix(experts + ".down_proj", {hidden, moe.expert_size}, moe, count);
    if (moe.shared_size > 0) {
      const std::string shared(names_.shared_experts);
      if (moe.gated)
        matrix(shared + ".gate_proj", {moe.shared_size, hidden, moe.shared_bias}, count);
      matrix(shared + ".up_proj", {moe.shared_size, hidden, moe.shared_bias}, count);
      matrix(shared + ".down_proj", {hidden, moe.shared_size, moe.shared_bias}, count);
    }
    if (moe.shared_gate) matrix("mlp.shared_expert_gate", {1, hidden}, count);
    if (moe.correction_bias_buffer) {
      inventory_.add(BufferTensor{
          .name = router + ".e_score_correction_bias", .shape = {moe.experts}, .count = count});
    }
  }

  /// One matrix of all experts, of which a token uses top_k.
  void expert_matrix(const std::string& name, Projection shape, const MixtureOfExperts& moe,
                     std::int64_t count) {
    if (names_.experts_in_out) std::swap(shape.out, shape.in);
    ParameterTensor tensor{.name = name,
                           .shape = {moe.experts, shape.out, shape.in},
                           .count = count,
                           .active_numerator = moe.top_k,
                           .active_denominator = moe.experts};
    inventory_.add(tensor);
    if (!moe.expert_bias) return;
    tensor.name = name + "_bias";
    tensor.shape = {moe.experts, names_.experts_in_out ? shape.in : shape.out};
    tensor.role = ParameterRole::bias;
    inventory_.add(std::move(tensor));
  }

  /// The norms over the residual stream, in the order in which a layer registers them.
  [[nodiscard]] std::vector<std::string_view> layer_norms() const {
    switch (decoder_.layout) {
      case BlockLayout::pre_norm:
      case BlockLayout::post_norm:
        return {names_.first_norm, names_.second_norm};
      case BlockLayout::sandwich:
        return {names_.first_norm, names_.attention_output_norm, names_.sandwich_second_norm,
                names_.feed_forward_output_norm};
      case BlockLayout::output_norm:
        return {names_.attention_output_norm, names_.feed_forward_output_norm};
      case BlockLayout::parallel_one_norm:
        return {names_.first_norm};
      case BlockLayout::parallel_two_norms:
        return {names_.parallel_first_norm, names_.parallel_second_norm};
    }
    return {};
  }

  void write_final_norm() {
    if (decoder_.final_norm) norm(names_.final_norm, decoder_.norm, {decoder_.hidden_size}, 1);
  }

  void write_head() {
    switch (decoder_.head) {
      case DecoderHead::language_model:
        if (!decoder_.tied_embeddings) {
          matrix_as_stored_by_linear(names_.head, decoder_.vocab_size);
        }
        if (decoder_.head_bias) {
          bias(std::string(names_.head) + ".bias", decoder_.vocab_size, 1);
        }
        return;
      case DecoderHead::classification:
        matrix_as_stored_by_linear("score", decoder_.labels);
        if (decoder_.head_bias) bias("score.bias", decoder_.labels, 1);
        return;
      case DecoderHead::none:
        return;
    }
  }

  /// Heads are torch.nn.Linear even where the layers' matrices are not.
  void matrix_as_stored_by_linear(std::string_view name, std::int64_t outputs) {
    inventory_.projection(std::string(name), {outputs, decoder_.embedding_size});
  }

  void write_buffers() {
    if (const auto* rotary = std::get_if<RotaryPosition>(&decoder_.position)) {
      for (const char* name : {"rotary_emb.inv_freq", "rotary_emb.original_inv_freq"}) {
        inventory_.add(BufferTensor{
            .name = name, .shape = {(rotary->rotary_dim + 1) / 2}, .count = rotary->tables});
      }
    }
    for (const BufferTensor& buffer : decoder_.buffers) inventory_.add(buffer);
  }

  const DecoderSpec& decoder_;
  const DecoderNames& names_;
  std::int64_t layers_;
  InventoryBuilder inventory_;
};

}  // namespace

Inventory parameters_of_decoder(const DecoderSpec& decoder, std::string_view model_type) {
  return DecoderParameters(decoder, model_type).write();
}

}  // namespace memest
