#include <algorithm>

#include "graph/lower/ops/decoder_context.hpp"

namespace memest {
namespace {

void bind_feed_forward(const DecoderSpec& decoder, Bindings& sizes) {
  if (const auto* dense = std::get_if<DenseFeedForward>(&decoder.kinds.front().feed_forward)) {
    sizes.set(Symbol::ffn_size, dense->size);
  }
  for (const LayerKind& kind : decoder.kinds) {
    const auto* experts = std::get_if<MixtureOfExperts>(&kind.feed_forward);
    if (experts == nullptr) continue;
    sizes.set(Symbol::experts, experts->experts)
        .set(Symbol::top_k, experts->top_k)
        .set(Symbol::expert_ffn_size, experts->expert_size);
  }
}

}  // namespace

void bind_sizes(const DecoderContext& context, Bindings& sizes) {
  const DecoderSpec& decoder = context.decoder;
  const SoftmaxAttention& attention = context.attention;
  const LoweringPolicy& policy = context.policy;
  // Joined sequences are one for the kernels alone: its length is b·s.
  if (policy.joined) {
    const std::int64_t sequences = policy.joined->sequences;
    bind_tokens(sizes, sequences, policy.seq_len / sequences);
  } else {
    bind_tokens(sizes, policy.micro_batch, policy.seq_len);
  }
  sizes.set(Symbol::hidden_size, decoder.hidden_size)
      .set(Symbol::vocab_size, decoder.vocab_size)
      .set(Symbol::heads, attention.heads)
      .set(Symbol::kv_heads, attention.kv_heads)
      .set(Symbol::head_dim, attention.head_dim)
      .set(Symbol::layers, decoder.layers())
      .set(Symbol::tensor, context.policy.tensor)
      .set(Symbol::expert, context.policy.expert)
      .set(Symbol::context, context.policy.context);
  // The last pass of generate(): of the longest cache.
  if (context.generates()) {
    sizes.set(Symbol::cached_keys,
              context.tokens() + std::max<std::int64_t>(context.policy.new_tokens - 1, 0));
  }
  bind_feed_forward(decoder, sizes);
  if (const auto* rotary = std::get_if<RotaryPosition>(&decoder.position)) {
    sizes.set(Symbol::rotary_dim, rotary->rotary_dim);
  }
  if (const auto* learned = std::get_if<LearnedPosition>(&decoder.position)) {
    sizes.set(Symbol::max_positions, learned->rows);
  }
}

}  // namespace memest
