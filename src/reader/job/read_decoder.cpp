// `family: decoder`, key by key.
#include <array>
#include <utility>

#include "reader/job/read_model.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

/// The key's word is `word`.
bool is_word(const Value& table, std::string_view key, std::string_view word) {
  return as_text(table.find(key)) == std::string(word);
}

struct Activation {
  std::string_view word;
  ActivationFunction function;
  bool gated;
};
constexpr std::array<Activation, 7> kActivations = {
    {{"gelu", ActivationFunction::gelu, false},
     {"gelu-tanh", ActivationFunction::gelu_tanh, false},
     {"relu", ActivationFunction::relu, false},
     {"relu2", ActivationFunction::relu2, false},
     {"silu", ActivationFunction::silu, false},
     {"swiglu", ActivationFunction::silu, true},
     {"geglu", ActivationFunction::gelu, true}}};

class DecoderReader {
 public:
  DecoderReader(const Value& model, Diagnostics& diagnostics)
      : model_(model), diagnostics_(diagnostics) {}

  std::optional<DecoderSpec> read() {
    const std::size_t before = diagnostics_.size();
    DecoderSpec spec;
    hidden_size_ = count("hidden_size");
    spec.hidden_size = hidden_size_;
    spec.embedding_size = hidden_size_;
    spec.vocab_size = count("vocab_size");
    spec.max_positions = count("max_positions");
    spec.attention = model_.find("mla") != nullptr
                         ? Attention(latent_attention(*model_.find("mla")))
                         : Attention(softmax_attention());
    spec.position = position();
    spec.norm = norm();
    spec.layout =
        flag("parallel_residual") ? BlockLayout::parallel_two_norms : BlockLayout::pre_norm;
    spec.tied_embeddings = flag("tied_embeddings");
    spec.mtp_layers = count("mtp_num_layers");
    spec.logit_softcap = as_number(model_.find("logit_softcap"));
    const double dropout = as_number(model_.find("dropout")).value_or(0);
    spec.dropout = {.embedding = dropout, .attention = dropout, .residual = dropout};
    add_layers(spec);
    if (diagnostics_.size() > before) return std::nullopt;
    return spec;
  }

 private:
  [[nodiscard]] std::int64_t count(std::string_view key, std::int64_t fallback = 0) const {
    return as_count(model_.find(key)).value_or(fallback);
  }
  [[nodiscard]] bool flag(std::string_view key) const {
    return as_flag(model_.find(key)).value_or(false);
  }
  void error(std::string_view key, std::string message, std::string hint = {}) {
    diagnostics_.push_back(error_at(model_.find(key)->span, std::move(message), std::move(hint)));
  }

  [[nodiscard]] Norm norm() const {
    const bool rms = is_word(model_, "norm", "rmsnorm");
    return {.kind = rms ? NormKind::rmsnorm : NormKind::layernorm,
            .gain = NormGain::weight,
            .bias = !rms && flag("bias")};
  }

  SoftmaxAttention softmax_attention() {
    SoftmaxAttention attention;
    attention.heads = count("heads");
    attention.kv_heads = kv_heads(attention.heads);
    attention.head_dim = head_dim(attention.heads);
    head_dim_ = attention.head_dim;
    attention.q_bias = attention.kv_bias = attention.output_bias = flag("bias");
    if (flag("qk_norm")) {
      attention.qk_norm = QkNorm::per_head;
      attention.qk_norm_kind = norm();
    }
    attention.softcap = as_number(model_.find("attention_softcap"));
    return attention;
  }

  std::int64_t kv_heads(std::int64_t heads) {
    const std::int64_t kv_heads = count("kv_heads", heads);
    if (heads <= 0 || kv_heads <= 0) return kv_heads;
    const std::string text = "'kv_heads' " + std::to_string(kv_heads);
    if (kv_heads > heads) {
      error("kv_heads", text + " is more than 'heads' " + std::to_string(heads));
    } else if (heads % kv_heads != 0) {
      error("kv_heads", text + " does not divide 'heads' " + std::to_string(heads),
            "every key head serves the same number of query heads");
    }
    return kv_heads;
  }

  std::int64_t head_dim(std::int64_t heads) {
    if (model_.find("head_dim") != nullptr) return count("head_dim");
    if (heads <= 0 || hidden_size_ <= 0) return 0;
    if (hidden_size_ % heads != 0) {
      error("heads",
            "'heads' " + std::to_string(heads) + " does not divide 'hidden_size' " +
                std::to_string(hidden_size_),
            "set 'head_dim' where a head is not hidden_size / heads wide");
    }
    return hidden_size_ / heads;
  }

  LatentAttention latent_attention(const Value& mla) {
    LatentAttention attention;
    const auto size = [&mla](std::string_view key) { return as_count(mla.find(key)).value_or(0); };
    attention.heads = count("heads");
    attention.q_lora_rank = size("q_lora_rank");
    attention.kv_lora_rank = size("kv_lora_rank");
    attention.qk_nope_head_dim = size("qk_nope_head_dim");
    attention.qk_rope_head_dim = size("qk_rope_head_dim");
    attention.v_head_dim = size("v_head_dim");
    attention.bias = flag("bias");
    head_dim_ = attention.qk_rope_head_dim;
    for (const std::string_view key : {"head_dim", "qk_norm", "attention_softcap"}) {
      const Value* value = model_.find(key);
      if (value == nullptr || as_flag(value) == false) continue;
      error(key, quote(key) + " has no meaning beside 'mla'", "leave it out");
    }
    if (count("kv_heads", attention.heads) != attention.heads) {
      error("kv_heads", "'kv_heads' has no meaning beside 'mla'", "leave it out");
    }
    return attention;
  }

  Position position() {
    if (is_word(model_, "position", "alibi")) return AlibiPosition{};
    if (is_word(model_, "position", "none")) return NoPosition{};
    if (!is_word(model_, "position", "learned")) return RotaryPosition{.rotary_dim = head_dim_};
    if (model_.find("max_positions") == nullptr) {
      error("position", "learned positions need 'max_positions'",
            "it is the number of rows of the table");
    }
    return LearnedPosition{.rows = count("max_positions")};
  }

  [[nodiscard]] const Activation& activation() const {
    for (const Activation& activation : kActivations) {
      if (is_word(model_, "activation", activation.word)) return activation;
    }
    return kActivations.front();
  }

  [[nodiscard]] std::int64_t ffn_size() const { return count("ffn_size", 4 * hidden_size_); }

  [[nodiscard]] DenseFeedForward dense_feed_forward() const {
    return {.size = ffn_size(),
            .activation = activation().function,
            .gated = activation().gated,
            .bias = flag("bias")};
  }

  MixtureOfExperts experts(const Value& moe) {
    MixtureOfExperts experts;
    const auto number = [&moe](std::string_view key, std::int64_t fallback) {
      return as_count(moe.find(key)).value_or(fallback);
    };
    experts.experts = number("experts", 0);
    experts.top_k = number("top_k", 0);
    experts.expert_size = number("expert_ffn_size", ffn_size());
    experts.shared_size = checked_multiply(number("shared_experts", 0), experts.expert_size);
    experts.activation = activation().function;
    experts.gated = activation().gated;
    experts.expert_bias = flag("bias");
    experts.shared_gate = as_flag(moe.find("shared_gate")).value_or(false);
    experts.correction_bias_buffer = as_flag(moe.find("score_bias")).value_or(false);
    experts.capacity_factor = as_number(moe.find("capacity_factor")).value_or(0);
    experts.imbalance = as_number(moe.find("imbalance")).value_or(1);
    if (experts.experts > 0 && experts.top_k > experts.experts) {
      diagnostics_.push_back(
          error_at(moe.find("top_k")->span, "'top_k' " + std::to_string(experts.top_k) +
                                                " is more than 'experts' " +
                                                std::to_string(experts.experts)));
    }
    return experts;
  }

  void add_layers(DecoderSpec& spec) {
    const std::optional<std::int64_t> window = as_count(model_.find("sliding_window"));
    const std::int64_t layers = count("layers");
    const Value* moe = model_.find("moe");
    std::int64_t dense_layers = layers;
    if (moe != nullptr) {
      dense_layers = as_count(moe->find("dense_layers")).value_or(0);
      if (layers > 0 && dense_layers > layers) {
        diagnostics_.push_back(error_at(moe->find("dense_layers")->span,
                                        "'dense_layers' " + std::to_string(dense_layers) +
                                            " is more than 'layers' " + std::to_string(layers)));
      }
    }
    const auto add = [&spec, &window](FeedForward feed_forward, std::int64_t repeat) {
      if (repeat <= 0) return;
      spec.order.push_back({.kind = spec.kinds.size(), .repeat = repeat});
      spec.kinds.push_back({.sliding_window = window, .feed_forward = std::move(feed_forward)});
    };
    add(dense_feed_forward(), dense_layers);
    if (moe != nullptr) add(experts(*moe), layers - dense_layers);
  }

  const Value& model_;
  Diagnostics& diagnostics_;
  std::int64_t hidden_size_ = 0;
  std::int64_t head_dim_ = 0;  ///< channels of a query head that may rotate
};

}  // namespace

std::optional<DecoderSpec> read_decoder(const Value& model, Diagnostics& diagnostics) {
  return DecoderReader(model, diagnostics).read();
}

}  // namespace memest
