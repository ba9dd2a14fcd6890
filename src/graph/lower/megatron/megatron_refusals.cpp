// Refusals of what Megatron's layers do not run, or memest does not follow of them.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "graph/lower/megatron/megatron.hpp"
#include "graph/lower/megatron/megatron_quantized.hpp"

namespace memest {
namespace {

Unavailable unavailable(const std::string& what) {
  return {what + " of the implementation megatron is not available yet"};
}

/// Why Hybrid-EP carries no tokens on such ranks, or nothing: a search tries layouts and GPUs that
/// a spec may not name (reader/frameworks/megatron_wrappers.cpp).
std::optional<Unavailable> hybridep_refusal(const LoweringPolicy& policy) {
  if (policy.implementation.token_dispatcher != TokenDispatcher::hybridep) return std::nullopt;
  if (policy.expert == 1) {
    return Unavailable{
        "experts that every rank has need no dispatcher: 'token_dispatcher: hybridep' asks for "
        "'parallelism.expert'"};
  }
  if (policy.capability < kHopper) {
    return unavailable("Hybrid-EP on a GPU before compute capability 9.0");
  }
  if (policy.tensor > 1 && !policy.whole_experts) {
    return unavailable("Hybrid-EP beside experts that tensor-parallel ranks share");
  }
  return std::nullopt;
}

/// Why the experts have no graph, or nothing.
std::optional<Unavailable> refusal(const MixtureOfExperts& experts, const LoweringPolicy& policy) {
  if (auto refused = hybridep_refusal(policy)) return refused;
  if (policy.whole_experts && policy.expert == 1) {
    return unavailable("a mixture of whole experts on every tensor-parallel rank");
  }
  if (!experts.gated || experts.activation != ActivationFunction::silu) {
    return unavailable("a mixture of experts without swiglu");
  }
  const bool biased = experts.expert_bias || experts.router_bias;
  const bool cut = policy.tensor > 1 && !policy.whole_experts;
  if (experts.shared_bias || (biased && (policy.implementation.layers != LayerSpec::te || cut))) {
    return unavailable("a mixture of experts with biases");
  }
  return std::nullopt;
}

/// Why a dense layer's part has no graph, or nothing. Squared ReLU (activations.py) is a function
/// that Megatron compiles, as its fused ones are with Transformer Engine.
std::optional<Unavailable> refusal(const DenseFeedForward& part, const LoweringPolicy& policy) {
  const bool squares = !part.gated && part.activation == ActivationFunction::relu2;
  if (squares && !part.bias && policy.implementation.layers == LayerSpec::te) return std::nullopt;
  const bool silu = part.activation == ActivationFunction::silu;
  const bool gelu = !part.gated && is_fused_gelu(part.activation, policy);
  if (!(part.gated && silu) && !gelu) {
    return Unavailable{
        "Megatron fuses the activations swiglu and gelu with a bias, and compiles relu2 without "
        "one "
        "beside layers of Transformer Engine; others are not available yet"};
  }
  if (part.gated == part.bias) {
    return Unavailable{
        "Megatron's fused activations are swiglu without biases and gelu with them; other "
        "combinations are not available yet"};
  }
  return std::nullopt;
}

/// Why the layers have no graph, or nothing; dense ones may come before those of experts.
std::optional<Unavailable> refusal_of_layers(const DecoderSpec& decoder,
                                             const LoweringPolicy& policy) {
  const bool windows = policy.implementation.layers == LayerSpec::te && policy.context == 1;
  for (const LayerKind& kind : decoder.kinds) {
    if (kind.sliding_window && !windows) return unavailable("a sliding window");
    // Layers of one kind of feed-forward differ in their windows alone.
    const bool other = std::ranges::any_of(decoder.kinds, [&](const LayerKind& one) {
      return one.rotates != kind.rotates ||
             (one.feed_forward.index() == kind.feed_forward.index() &&
              one.feed_forward != kind.feed_forward);
    });
    if (other) return unavailable("a model of several kinds of layers");
    const auto* experts = std::get_if<MixtureOfExperts>(&kind.feed_forward);
    auto refused = experts != nullptr
                       ? refusal(*experts, policy)
                       : refusal(std::get<DenseFeedForward>(kind.feed_forward), policy);
    if (refused) return refused;
  }
  return std::nullopt;
}

std::optional<Unavailable> refusal(const LatentAttention& latent, const LoweringPolicy& policy) {
  if (policy.implementation.layers != LayerSpec::te) {
    return Unavailable{
        "Megatron's local attention takes no values of another size than keys: multi-head latent "
        "attention is that of its layers of Transformer Engine"};
  }
  if (latent.bias) return unavailable("latent attention with biases");
  return std::nullopt;
}

/// Whether DotProductAttention adds a learned logit a head (softmax_type: learnable), which flash
/// attention 2 does not.
bool runs_sinks(const LoweringPolicy& policy) {
  return policy.implementation.layers == LayerSpec::te && policy.context == 1 &&
         policy.implementation.attention == AttentionKernel::te;
}

std::optional<Unavailable> refusal(const SoftmaxAttention& attention,
                                   const LoweringPolicy& policy) {
  if (attention.softcap || (attention.sinks && !runs_sinks(policy))) {
    return unavailable("a softcap or sinks");
  }
  if (attention.qk_norm != QkNorm::none && attention.qk_norm != QkNorm::per_head) {
    return unavailable("a norm over the queries' and keys' whole width");
  }
  return std::nullopt;
}

}  // namespace

std::optional<Unavailable> megatron_refusal(const DecoderSpec& decoder,
                                            const LoweringPolicy& policy) {
  if (auto refused = legacy_refusal(decoder, policy)) return refused;
  const auto* latent = std::get_if<LatentAttention>(&decoder.attention);
  const SoftmaxAttention attention = heads_of(decoder.attention);
  if (auto refused = latent != nullptr ? refusal(*latent, policy) : refusal(attention, policy)) {
    return refused;
  }
  if (auto refused = refusal_of_layers(decoder, policy)) return refused;
  if (decoder.layout != BlockLayout::pre_norm) return unavailable("this block layout");
  const bool learned = std::holds_alternative<LearnedPosition>(decoder.position);
  const auto* rotary = std::get_if<RotaryPosition>(&decoder.position);
  // Megatron-DeepSpeed's: --position-embedding-type alibi, --embed-layernorm.
  const bool legacy = policy.implementation.layers == LayerSpec::legacy;
  const bool alibi = legacy && std::holds_alternative<AlibiPosition>(decoder.position);
  if (!learned && !alibi && rotary == nullptr) return unavailable("this position");
  const std::int64_t rotary_channels =
      latent != nullptr ? latent->qk_rope_head_dim : attention.head_dim;
  if (rotary != nullptr && rotary->rotary_dim != rotary_channels)
    return unavailable("a partial rotation");
  if (latent != nullptr && rotary == nullptr) return unavailable("this position");
  if (!decoder.final_norm || decoder.head != DecoderHead::language_model ||
      decoder.embedding_size != decoder.hidden_size || (decoder.embedding_norm && !legacy)) {
    return unavailable("this model");
  }
  if (!policy.gradients || policy.end != ForwardEnd::cross_entropy) {
    return unavailable("anything but training with cross-entropy");
  }
  return std::nullopt;
}

namespace {

std::optional<Unavailable> uneven_size(std::int64_t size, std::int64_t ranks, const char* what) {
  if (size % ranks == 0) return std::nullopt;
  return Unavailable{std::string(what) + " " + std::to_string(size) +
                     " cannot be cut evenly over " + std::to_string(ranks) +
                     " tensor-parallel ranks"};
}

}  // namespace

std::optional<Unavailable> uneven_layers(const MegatronContext& context) {
  const std::int64_t ranks = context.policy.tensor;
  const SoftmaxAttention& attention = context.attention;
  if (auto no = uneven_size(attention.heads, ranks, "the number of heads")) return no;
  if (auto no = uneven_size(attention.kv_heads, ranks, "the number of key-value heads")) return no;
  if (auto no = uneven_size(context.feed_forward.size, ranks, "the feed-forward size")) return no;
  if (!context.sequence) return std::nullopt;
  return uneven_size(context.policy.seq_len, ranks, "the sequence length");
}

std::optional<Unavailable> uneven_cut(const MegatronContext& context) {
  if (auto refused = quantized_refusal(context)) return refused;
  // context_parallel.py: "Context parallelism does not support MLA with" all-to-all.
  if (context.policy.context > 1 && context.latent &&
      context.policy.context_exchange == ContextExchange::all_to_all) {
    return Unavailable{
        "Transformer Engine exchanges no heads of latent attention over context-parallel ranks: "
        "its keys and values are passed round a ring"};
  }
  if (auto refused = uneven_layers(context)) return refused;
  return uneven_size(context.decoder.vocab_size, context.policy.tensor, "the vocabulary size");
}

}  // namespace memest
