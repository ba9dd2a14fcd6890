#include "graph/parameters/decoder_parameters.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/parameters/parameter_names.hpp"
#include "memest/spec/inventory.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Writes the tensors of the model's own modules, and of one layer of each run, as they come to
/// mind; the family's table of modules then says where each stands.
class DecoderParameters {
 public:
  DecoderParameters(const DecoderSpec& decoder, std::string_view model_type)
      : decoder_(decoder), names_(names_of(model_type)), layers_(decoder.layers()) {}

  Inventory write() && {
    write_embedding();
    write_final_norm();
    write_rotary_tables();
    write_buffers(Owner::model);
    write_head();
    std::vector<Placed> own = take_arranged(names_.model_order);
    const std::size_t layers = place_in_order("layers", names_.model_order);
    const auto after = std::find_if(own.begin(), own.end(),
                                    [&](const Placed& placed) { return placed.place > layers; });
    inventory_.repeat(1);
    add_all({own.begin(), after});
    for (const LayerRun& run : decoder_.order) {
      write_layer(decoder_.kinds[run.kind]);
      inventory_.repeat_layer(run.repeat);
      add_all(take_arranged(names_.layer_order));
    }
    write_predictions();
    inventory_.repeat(1);
    add_all({after, own.end()});
    return std::move(inventory_).take();
  }

 private:
  using Tensor = std::variant<ParameterTensor, BufferTensor>;
  /// A tensor and its module's place in the order.
  struct Placed {
    std::size_t place = 0;
    Tensor tensor;
  };
  enum class Owner { model, layer };

  /// Takes the tensors written since, in the order of the modules in `order`; a module's tensors as
  /// they were written.
  std::vector<Placed> take_arranged(std::string_view order) {
    std::vector<Placed> arranged;
    for (Tensor& tensor : std::exchange(written_, {})) {
      const std::string& name =
          std::visit([](const auto& row) -> const std::string& { return row.name; }, tensor);
      const std::size_t place = place_in_order(name, order);
      arranged.push_back({place, std::move(tensor)});
    }
    std::stable_sort(arranged.begin(), arranged.end(), [](const Placed& left, const Placed& right) {
      return left.place < right.place;
    });
    return arranged;
  }

  void add_all(const std::vector<Placed>& tensors) {
    for (const Placed& placed : tensors) {
      std::visit([this](const auto& tensor) { inventory_.add(tensor); }, placed.tensor);
    }
  }

  void write_layer(const LayerKind& kind) {
    std::visit([this](const auto& attention) { write_attention(attention); }, decoder_.attention);
    std::visit([this](const auto& part) { write_feed_forward(part); }, kind.feed_forward);
    write_layer_norms();
    write_buffers(Owner::layer);
  }

  /// Layers of multi-token prediction, with DeepSeek-V3's names; embedding and head are the
  /// model's.
  void write_predictions() {
    if (decoder_.mtp_layers == 0) return;
    const std::int64_t hidden = decoder_.hidden_size;
    write_layer(decoder_.kinds[decoder_.order.back().kind]);
    for (const char* name : {"enorm", "hnorm", "shared_head.norm"}) {
      norm(name, decoder_.norm, {hidden});
    }
    linear("eh_proj", {hidden, 2 * hidden});
    inventory_.repeat(decoder_.mtp_layers);
    add_all(take_arranged(names_.layer_order));
  }

  void add(Tensor tensor) { written_.push_back(std::move(tensor)); }

  void matrix(std::string_view name, Projection shape) {
    // GPT-2's matrices are transformers' Conv1D (pytorch_utils.py), whose weight is [nx, nf]. The
    // bytes are equal, but who cuts dimension 0 (FSDP2's Shard(0)) cuts another one.
    if (names_.stored_in_out) {
      add(ParameterTensor{.name = std::string(name) + ".weight",
                          .shape = {shape.in, shape.out},
                          .module = shape.module});
      if (shape.bias) bias(name, shape.out, shape.module);
    } else {
      linear(name, shape);
    }
  }

  void linear(std::string_view name, Projection shape) {
    add(ParameterTensor{.name = std::string(name) + ".weight",
                        .shape = {shape.out, shape.in},
                        .module = shape.module});
    if (shape.bias) bias(name, shape.out, shape.module);
  }

  void bias(std::string_view name, std::int64_t size,
            ParameterModule module = ParameterModule::other) {
    add(ParameterTensor{.name = std::string(name) + ".bias",
                        .shape = {size},
                        .role = ParameterRole::bias,
                        .module = module});
  }

  void norm(std::string_view name, const Norm& kind, std::vector<std::int64_t> shape,
            std::int64_t count = 1) {
    if (kind.gain == NormGain::none) return;
    add(ParameterTensor{.name = std::string(name) + ".weight",
                        .shape = shape,
                        .role = ParameterRole::norm,
                        .count = count});
    if (!kind.bias) return;
    add(ParameterTensor{.name = std::string(name) + ".bias",
                        .shape = std::move(shape),
                        .role = ParameterRole::norm,
                        .count = count});
  }

  void rms_norm(std::string_view name, std::int64_t size) {
    norm(name, Norm{.kind = NormKind::rmsnorm, .bias = false}, {size});
  }

  void write_embedding() {
    const std::int64_t hidden = decoder_.hidden_size;
    add(ParameterTensor{
        .name = std::string(names_.embedding) + ".weight",
        .shape = {decoder_.vocab_size, decoder_.embedding_size},
        .role = ParameterRole::embedding,
        // PreTrainedModel.tie_weights makes lm_head.weight and the table one Parameter: one tensor,
        // listed where it is met first.
        .output_head = decoder_.head == DecoderHead::language_model && decoder_.tied_embeddings});
    if (const auto* learned = std::get_if<LearnedPosition>(&decoder_.position)) {
      add(ParameterTensor{.name = std::string(names_.position) + ".weight",
                          .shape = {learned->rows, hidden},
                          .role = ParameterRole::embedding});
    }
    if (decoder_.embedding_norm) norm(names_.embedding_norm, decoder_.norm, {hidden});
    // OPT-350m: word_embed_proj_dim 512 of hidden_size 1024. OPTDecoder.__init__ makes
    // project_out before project_in.
    if (decoder_.embedding_size == hidden) return;
    linear("project_out", {decoder_.embedding_size, hidden});
    linear("project_in", {hidden, decoder_.embedding_size});
  }

  void write_attention(const SoftmaxAttention& attention) {
    const std::int64_t hidden = decoder_.hidden_size;
    const std::int64_t q_size = checked_multiply(attention.heads, attention.head_dim);
    const std::int64_t kv_size = checked_multiply(attention.kv_heads, attention.head_dim);
    if (attention.layout == QkvLayout::fused) {
      const std::int64_t width = checked_add(q_size, checked_multiply(kv_size, std::int64_t{2}));
      matrix(names_.qkv, {width, hidden, attention.q_bias});
    } else {
      matrix(names_.q, {q_size, hidden, attention.q_bias});
      matrix(names_.k, {kv_size, hidden, attention.kv_bias});
      matrix(names_.v, {kv_size, hidden, attention.kv_bias});
    }
    matrix(names_.attention_output,
           {hidden, q_size, attention.output_bias, ParameterModule::attention_output});
    query_key_norm(names_.q_norm, attention, attention.heads);
    query_key_norm(names_.k_norm, attention, attention.kv_heads);
    if (attention.sinks) {
      add(ParameterTensor{
          .name = "self_attn.sinks", .shape = {attention.heads}, .role = ParameterRole::other});
    }
  }

  void query_key_norm(std::string_view name, const SoftmaxAttention& attention,
                      std::int64_t heads) {
    const Norm& kind = attention.qk_norm_kind;
    switch (attention.qk_norm) {
      case QkNorm::none:
        return;
      case QkNorm::per_head:
        return norm(name, kind, {attention.head_dim});
      case QkNorm::per_head_own:
        // StableLmLayerNormPerHead: a ModuleList of nn.LayerNorm(head_dim), one for each head.
        // Cohere has one weight of [heads, head_dim] (CohereAttention.q_norm).
        if (names_.one_tensor_a_head) {
          return norm(name, kind, {attention.head_dim}, heads);
        }
        return norm(name, kind, {heads, attention.head_dim});
      case QkNorm::full_width:
        return norm(name, kind, {checked_multiply(heads, attention.head_dim)});
    }
  }

  void write_attention(const LatentAttention& attention) {
    const std::int64_t hidden = decoder_.hidden_size;
    const std::int64_t q_size = checked_multiply(
        attention.heads, checked_add(attention.qk_nope_head_dim, attention.qk_rope_head_dim));
    const std::int64_t kv_size = checked_multiply(
        attention.heads, checked_add(attention.qk_nope_head_dim, attention.v_head_dim));
    // kv_a_proj_with_mqa makes the latents and, beside them, the one rotating key that all heads
    // share: 512 + 64 rows in DeepSeek-V3.
    const std::int64_t latent = checked_add(attention.kv_lora_rank, attention.qk_rope_head_dim);
    // DeepseekV2Attention.__init__: q_lora_rank is None in DeepSeek-V2-Lite; attention_bias is on
    // the products into latents and on o_proj, not on those out of them.
    if (attention.q_lora_rank == 0) {
      matrix("self_attn.q_proj", {q_size, hidden});
    } else {
      matrix("self_attn.q_a_proj", {attention.q_lora_rank, hidden, attention.bias});
      rms_norm("self_attn.q_a_layernorm", attention.q_lora_rank);
      matrix("self_attn.q_b_proj", {q_size, attention.q_lora_rank});
    }
    matrix("self_attn.kv_a_proj_with_mqa", {latent, hidden, attention.bias});
    rms_norm("self_attn.kv_a_layernorm", attention.kv_lora_rank);
    matrix("self_attn.kv_b_proj", {kv_size, attention.kv_lora_rank});
    const std::int64_t values = checked_multiply(attention.heads, attention.v_head_dim);
    matrix(names_.attention_output,
           {hidden, values, attention.bias, ParameterModule::attention_output});
  }

  void write_feed_forward(const DenseFeedForward& part) {
    const std::int64_t hidden = decoder_.hidden_size;
    if (part.gated && part.fused_gate_up) {
      const std::int64_t width = checked_multiply(part.size, std::int64_t{2});
      matrix(names_.gate_up, {width, hidden, part.bias});
    } else {
      if (part.gated) matrix(names_.gate, {part.size, hidden, part.bias});
      matrix(names_.up, {part.size, hidden, part.bias});
    }
    matrix(names_.down, {hidden, part.size, part.bias, ParameterModule::feed_forward_down});
  }

  void write_feed_forward(const MixtureOfExperts& moe) {
    const std::int64_t hidden = decoder_.hidden_size;
    const std::string router(names_.router);
    matrix(router, {moe.experts, hidden, moe.router_bias, ParameterModule::router});
    // transformers 5 keeps the experts of a layer in two 3-D Parameters
    // (MixtralExperts.gate_up_proj and down_proj), not in a module each: Mixtral-8x7B's first is
    // [8, 2·14336, 4096].
    const std::int64_t width = checked_multiply(moe.expert_size, std::int64_t{moe.gated ? 2 : 1});
    const std::string experts(names_.experts);
    if (names_.expert_gate.empty()) {
      expert_matrix(experts + (moe.gated ? ".gate_up_proj" : ".up_proj"), {width, hidden}, moe);
      expert_matrix(experts + ".down_proj", {hidden, moe.expert_size}, moe);
    } else {
      for (const std::string_view name : {names_.expert_gate, names_.expert_up}) {
        expert_matrix(std::string(name), {moe.expert_size, hidden}, moe);
      }
      expert_matrix(std::string(names_.expert_down),
                    {hidden, moe.expert_size, false, ParameterModule::feed_forward_down}, moe);
    }
    if (moe.shared_size > 0) {
      const std::string shared(names_.shared_experts);
      if (moe.gated) matrix(shared + ".gate_proj", {moe.shared_size, hidden, moe.shared_bias});
      matrix(shared + ".up_proj", {moe.shared_size, hidden, moe.shared_bias});
      matrix(shared + ".down_proj", {hidden, moe.shared_size, moe.shared_bias});
    }
    if (moe.shared_gate) matrix("mlp.shared_expert_gate", {1, hidden});
    // DeepseekV3TopkRouter.e_score_correction_bias is a Buffer, which no optimizer sees and
    // model.to(bf16) casts; from_pretrained keeps it fp32 (_keep_in_fp32_modules_strict).
    if (moe.correction_bias_buffer) {
      add(BufferTensor{
          .name = router + ".e_score_correction_bias", .shape = {moe.experts}, .as_weights = true});
    }
  }

  /// One matrix of all experts, of which a token uses top_k.
  void expert_matrix(const std::string& name, Projection shape, const MixtureOfExperts& moe) {
    // GptOssExperts: gate_up_proj is [experts, hidden, 2·intermediate].
    if (names_.experts_in_out) std::swap(shape.out, shape.in);
    ParameterTensor tensor{.name = name,
                           .shape = {moe.experts, shape.out, shape.in},
                           .active_numerator = moe.top_k,
                           .active_denominator = moe.experts,
                           .module = shape.module};
    add(tensor);
    if (!moe.expert_bias) return;
    tensor.name = name + "_bias";
    tensor.shape = {moe.experts, names_.experts_in_out ? shape.in : shape.out};
    tensor.role = ParameterRole::bias;
    add(std::move(tensor));
  }

  void write_layer_norms() {
    const auto layer_norm = [this](std::string_view name) {
      norm(name, decoder_.norm, {decoder_.hidden_size});
    };
    switch (decoder_.layout) {
      case BlockLayout::pre_norm:
      case BlockLayout::post_norm:
        layer_norm(names_.first_norm);
        return layer_norm(names_.second_norm);
      // Gemma2DecoderLayer.__init__: four norms, those of the feed-forward last.
      case BlockLayout::sandwich:
        layer_norm(names_.first_norm);
        layer_norm(names_.attention_output_norm);
        layer_norm(names_.sandwich_second_norm);
        return layer_norm(names_.feed_forward_output_norm);
      case BlockLayout::output_norm:
        layer_norm(names_.attention_output_norm);
        return layer_norm(names_.feed_forward_output_norm);
      case BlockLayout::parallel_one_norm:
        return layer_norm(names_.first_norm);
      case BlockLayout::parallel_two_norms:
        layer_norm(names_.parallel_first_norm);
        return layer_norm(names_.parallel_second_norm);
    }
  }

  void write_final_norm() {
    if (decoder_.final_norm) norm(names_.final_norm, decoder_.norm, {decoder_.hidden_size});
  }

  /// Heads are torch.nn.Linear even where the layers' matrices are not.
  void write_head() {
    switch (decoder_.head) {
      case DecoderHead::language_model:
        if (!decoder_.tied_embeddings) {
          linear(names_.head, {decoder_.vocab_size, decoder_.embedding_size});
        }
        if (decoder_.head_bias) bias(names_.head, decoder_.vocab_size);
        return;
      case DecoderHead::classification:
        return linear("score", {decoder_.labels, decoder_.embedding_size, decoder_.head_bias});
      case DecoderHead::none:
        return;
    }
  }

  void write_rotary_tables() {
    const auto* rotary = std::get_if<RotaryPosition>(&decoder_.position);
    if (rotary == nullptr || !names_.rotary_modules) return;
    for (std::int64_t table = 0; table < rotary->tables; ++table) {
      // LlamaRotaryEmbedding.__init__ keeps the frequencies twice, since dynamic_rope_update may
      // rewrite the first: rotary_dim 128 is two buffers of 64. Gemma 3 has a pair for each layer
      // type.
      for (const char* name : {"rotary_emb.inv_freq", "rotary_emb.original_inv_freq"}) {
        add(BufferTensor{.name = name, .shape = {(rotary->rotary_dim + 1) / 2}});
      }
    }
  }

  /// The other buffers: those of a module that stands in a layer count one for each layer.
  void write_buffers(Owner owner) {
    for (BufferTensor buffer : decoder_.buffers) {
      const bool in_layer = place_in_order(buffer.name, names_.layer_order) != kUnlisted;
      if (in_layer != (owner == Owner::layer)) continue;
      if (in_layer) buffer.count /= layers_;
      add(std::move(buffer));
    }
  }

  const DecoderSpec& decoder_;
  const DecoderNames& names_;
  std::int64_t layers_;
  std::vector<Tensor> written_;
  InventoryBuilder inventory_;
};

}  // namespace

Inventory parameters_of_decoder(const DecoderSpec& decoder, std::string_view model_type) {
  return DecoderParameters(decoder, model_type).write();
}

}  // namespace memest
