// MLASelfAttention over layers of Transformer Engine: queries, keys and values are products of
// normed latents; one part of a head rotates, for all heads' keys the same. Its rotations are not
// fused. The table of angles, which every layer makes for itself, is counted once. Each
// tensor-parallel rank has the products into latents whole (TELinear, duplicated), over its own
// shard of the sequence, whose rotated parts are then all-gathered; products out of latents have a
// rank's heads.
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
    const TensorId query = call.local(queries(x));
    const auto [key, value] = keys_and_values(x);
    for (const TensorId local : {key, value}) call.local(local);
    const TensorId mixed = call.local(te_core_attention(block_, context_, {query, key, value}));
    return row_product(block_, context_, {"o_proj", context_.a * value_, context_.h}, mixed);
  }

 private:
  struct KeysAndValues {
    TensorId keys = 0;
    TensorId values = 0;
  };

  [[nodiscard]] Shape by_heads(const Expr& heads, const Expr& width) const {
    return {context_.s, context_.b, heads, width};
  }

  TensorId into_latents(std::string_view name, const Expr& width, TensorId x) {
    return column_product(block_, context_,
                          {.name = name, .in = context_.h, .out = width, .duplicated = true}, x);
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
    return exchanged(block_, {{"kv_down_proj", "gathered"}, by_heads(Expr(1), rope_), dtype}, x,
                     {.backward = MessageKind::reduce_scatter, .scratch = {shard}});
  }

  TensorId normed(std::string_view name, TensorId x, const Expr& width) {
    NormKernelPart part{.name = name, .rms = true};
    part.gain = block_.parameter({name, "weight"}, {width});
    return normalize(block_, part, x);
  }

  /// Even and odd channels are parted, then both halves turned.
  TensorId rotated_heads(std::string_view name, TensorId x) {
    MegatronContext context = context_;
    context.d = rope_;
    // _apply_rotary_pos_emb_bshd with multi_latent_attention: torch.cat((t[..., 0::2], t[...,
    // 1::2]), dim=-1).
    const TensorId parted = copy(block_, {name, "parted"}, x, block_.tensor(x).shape);
    return local_rotated(block_, context, name, parted);
  }

  TensorId queries(TensorId x) {
    Frame call(block_);
    TensorId latents = x;
    Expr width = context_.h;
    // config.q_lora_rank is None: linear_q_proj from the hidden states, as in DeepSeek-V2-Lite.
    if (latent_.q_lora_rank > 0) {
      width = latent_.q_lora_rank;
      const TensorId down = call.local(into_latents("q_down_proj", width, x));
      latents = normed("q_norm", down, width);
    }
    const TensorId both =
        call.local(out_of("q_up_proj", width, context_.a * (nope_ + rope_), latents));
    const std::vector<TensorId> parts =
        split(block_, "q_up_proj", both,
              {{{"q_up_proj", "still"}, by_heads(context_.a, nope_)},
               {{"q_up_proj", "turning"}, by_heads(context_.a, rope_)}});
    const TensorId rotated = call.local(rotated_heads("q_rotary", parts[1]));
    return concatenate(block_, {"query"}, {{parts[0], rotated}},
                       by_heads(context_.a, nope_ + rope_));
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

  KeysAndValues keys_and_values(TensorId x) {
    Frame call(block_);
    const Expr rank = latent_.kv_lora_rank;
    const TensorId down = call.local(into_latents("kv_down_proj", rank + rope_, x));
    Shape turning = context_.stream(Expr(1));
    turning.push_back(rope_);
    const std::vector<TensorId> latents =
        split(block_, "kv_down_proj", down,
              {{{"kv_down_proj", "latents"}, context_.stream(rank)},
               {{"kv_down_proj", "turning"}, std::move(turning)}});
    const TensorId one_head = call.local(of_whole_sequence(latents[1]));
    const TensorId both = call.local(out_of("kv_up_proj", rank, context_.a * (nope_ + value_),
                                            normed("kv_norm", latents[0], rank)));
    const std::vector<TensorId> parts =
        split(block_, "kv_up_proj", both,
              {{{"kv_up_proj", "still"}, by_heads(context_.a, nope_)},
               {{"kv_up_proj", "values"}, by_heads(context_.a, value_)}});
    const TensorId rotated = call.local(rotated_heads("k_rotary", one_head));
    KeysAndValues result;
    result.keys = concatenate(block_, {"key"}, {{parts[0], of_all_heads(rotated)}},
                              by_heads(context_.a, nope_ + rope_));
    // MLASelfAttention: value = value.contiguous() before core_attention.
    result.values = copy(block_, {"value"}, parts[1], by_heads(context_.a, value_));
    return result;
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
