// MLASelfAttention over layers of Transformer Engine: queries, keys and values are products of
// normed latents; one part of a head rotates, for all heads' keys the same. Its rotations are not
// fused. Every layer makes a table of angles for itself, which stays (RotaryEmbedding.forward is
// @lru_cache). Each tensor-parallel rank has the products into latents whole (TELinear,
// duplicated), over its own shard of the sequence, whose rotated parts are then all-gathered;
// products out of latents have a rank's heads.
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/megatron/megatron.hpp"
#include "graph/lower/megatron/megatron_mappings.hpp"

namespace memest {
namespace {

class MegatronLatentWriter {
 public:
  MegatronLatentWriter(BlockBuilder& block, const MegatronContext& context)
      : block_(block),
        context_(context),
        latent_(*context.latent),
        nope_(latent_.qk_nope_head_dim),
        rope_(latent_.qk_rope_head_dim),
        value_(latent_.v_head_dim) {}

  TensorId write(TensorId x) {
    Frame call(block_);
    const Latents latents = into_latents(call, x);
    const Heads heads = out_of_latents(latents);
    for (const TensorId local : {heads.queries, heads.keys, heads.values}) call.local(local);
    const TensorId mixed =
        call.local(te_core_attention(block_, context_, {heads.queries, heads.keys, heads.values}));
    // qkv_up_checkpoint.discard_output_and_register_recompute(core_attn_out).
    block_.ops().back().drops = Remade::latent_projection;
    return attention_output(block_, context_, context_.a * value_, mixed);
  }

 private:
  /// The first half of MLASelfAttention.get_query_key_value_tensors.
  struct Latents {
    TensorId queries = 0;
    TensorId keys_and_values = 0;
    TensorId turning = 0;  ///< of all heads' keys
  };
  struct Heads {
    TensorId queries = 0;
    TensorId keys = 0;
    TensorId values = 0;
  };

  [[nodiscard]] Shape by_heads(const Expr& heads, const Expr& width) const {
    return {context_.s, context_.b, heads, width};
  }

  TensorId down(std::string_view name, const Expr& width, TensorId x) {
    // set_for_recompute_input_layernorm: the norm's answer is made again before it is read.
    return column_product(block_, context_,
                          {.name = name,
                           .in = context_.h,
                           .out = width,
                           .duplicated = true,
                           .input_is_kept = context_.recomputes(&SelectiveRecompute::norms)},
                          x);
  }

  TensorId out_of(std::string_view name, const Expr& in, const Expr& out, TensorId x) {
    return column_product(block_, context_,
                          {.name = name, .in = in, .out = out, .gathers = context_.sequence}, x);
  }

  /// gather_from_sequence_parallel_region, of what is a part of a product: a copy is sent. The
  /// ranks' gradients are summed and scattered.
  TensorId of_whole_sequence(TensorId x) {
    if (!context_.sequence) return x;
    const DType dtype = block_.dtype_of(x);
    const TensorId shard =
        scratch(block_, {"kv_down_proj", "shard"}, block_.tensor(x).shape, dtype);
    return exchanged(
        block_, {{"kv_down_proj", "gathered"}, by_heads(Expr(1), rope_), dtype}, x,
        {.backward = MessageKind::reduce_scatter, .kind = OpKind::copy, .scratch = {shard}});
  }

  TensorId normed(std::string_view name, TensorId x, const Expr& width) {
    NormKernelPart part{.name = name, .rms = true};
    part.gain = block_.parameter({name, "weight"}, {width});
    return normalize(block_, part, x);
  }

  TensorId rotated_heads(std::string_view name, TensorId x) {
    MegatronContext context = context_;
    context.d = rope_;
    return local_rotated(block_, context, name, x);
  }

  Latents into_latents(Frame& forward, TensorId x) {
    Frame call(block_);
    rotary_table(block_, context_);
    Latents latents{.queries = x};
    // config.q_lora_rank is None: linear_q_proj from the hidden states, as in DeepSeek-V2-Lite.
    if (latent_.q_lora_rank > 0) {
      latents.queries = forward.local(down("q_down_proj", Expr(latent_.q_lora_rank), x));
    }
    const Expr rank = latent_.kv_lora_rank;
    const TensorId both = forward.local(down("kv_down_proj", rank + rope_, x));
    Shape turning = context_.stream(Expr(1));
    turning.push_back(rope_);
    const std::vector<TensorId> parts = split(block_, "kv_down_proj", both,
                                              {{{"kv_down_proj", "latents"}, context_.stream(rank)},
                                               {{"kv_down_proj", "turning"}, std::move(turning)}});
    latents.keys_and_values = parts[0];
    latents.turning = call.local(of_whole_sequence(parts[1]));
    return latents;
  }

  /// qkv_up_proj_and_rope_apply.
  Heads out_of_latents(const Latents& latents) {
    const std::size_t first = block_.ops().size();
    Heads heads;
    {
      Frame call(block_);
      const TensorId queries = queries_of(latents.queries);
      const TensorId both =
          out_of("kv_up_proj", Expr(latent_.kv_lora_rank), context_.a * (nope_ + value_),
                 normed("kv_norm", latents.keys_and_values, Expr(latent_.kv_lora_rank)));
      const std::vector<TensorId> of_queries =
          split(block_, "q_up_proj", queries,
                {{{"q_up_proj", "still"}, by_heads(context_.a, nope_)},
                 {{"q_up_proj", "turning"}, by_heads(context_.a, rope_)}});
      const std::vector<TensorId> parts =
          split(block_, "kv_up_proj", both,
                {{{"kv_up_proj", "still"}, by_heads(context_.a, nope_)},
                 {{"kv_up_proj", "values"}, by_heads(context_.a, value_)}});
      const TensorId turned = rotated_heads("q_rotary", of_queries[1]);
      const TensorId turned_key = rotated_heads("k_rotary", latents.turning);
      const Shape whole = by_heads(context_.a, nope_ + rope_);
      heads.queries = concatenate(block_, {"query"}, {{of_queries[0], turned}}, whole);
      heads.keys = concatenate(block_, {"key"}, {{parts[0], of_all_heads(turned_key)}}, whole);
      heads.values = copy(block_, {"value"}, parts[1], by_heads(context_.a, value_));
      for (const TensorId local : {turned_key, queries, turned, both}) call.local(local);
    }
    mark_remade(block_, first, Remade::latent_projection,
                {heads.queries, heads.keys, heads.values});
    return heads;
  }

  TensorId queries_of(TensorId latents) {
    Expr width = context_.h;
    if (latent_.q_lora_rank > 0) {
      width = latent_.q_lora_rank;
      latents = normed("q_norm", latents, width);
    }
    return out_of("q_up_proj", width, context_.a * (nope_ + rope_), latents);
  }

  /// One turned part, seen by all heads: its gradient is their sum.
  TensorId of_all_heads(TensorId x) {
    const TensorId seen = block_.alias({"key", "of all heads"}, x, block_.tensor(x).shape);
    Op op;
    op.kind = OpKind::view;
    op.name = "key";
    op.inputs = {x};
    op.outputs = {seen};
    KernelLaunch sum;
    sum.outer = context_.s * context_.b;
    sum.reduced = context_.a;
    sum.inner = rope_;
    sum.dtype = block_.dtype_of(x);
    BackwardWriter backward(op);
    backward.give(x, backward.make(x, block_.dtype_of(x)));
    backward.launch(std::move(sum));
    block_.emit(std::move(op));
    return seen;
  }

  BlockBuilder& block_;
  const MegatronContext& context_;
  const LatentAttention& latent_;
  Expr nope_;
  Expr rope_;
  Expr value_;
};

}  // namespace

TensorId megatron_latent_attention(BlockBuilder& block, const MegatronContext& context,
                                   TensorId x) {
  return MegatronLatentWriter(block, context).write(x);
}

}  // namespace memest
