// Multi-head latent attention as transformers 5.17 writes it (models/deepseek_v2 and deepseek_v3):
// queries, keys and values are products of normed latents, and one part of a head rotates, for all
// heads' keys the same.
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

class LatentWriter {
 public:
  LatentWriter(BlockBuilder& block, const DecoderContext& context, const RotaryCall& rotary)
      : block_(block),
        context_(context),
        rotary_(rotary),
        dims_(context.dims),
        latent_(*context.latent()),
        nope_(latent_.qk_nope_head_dim),
        rope_(latent_.qk_rope_head_dim),
        value_(latent_.v_head_dim) {}

  // DeepseekV3Attention.forward, line by line. DeepSeek-V3 has 128 heads of 128 + 64 channels and
  // latents of 512 + 64: a token's queries are 24,576 channels.
  AttentionInputs write(TensorId x) {
    Frame& function = rotary_.attention;
    const TensorId q = function.local(queries(x));
    const std::vector<TensorId> parts = split(block_, "q_proj", seen_by_heads("q_proj", q, dims_.d),
                                              {{{"q_proj", "still"}, by_heads(dims_.a, nope_)},
                                               {{"q_proj", "turning"}, by_heads(dims_.a, rope_)}});
    const Expr rank = latent_.kv_lora_rank;
    const TensorId down = product({"kv_a_proj", dims_.h, rank + rope_, latent_.bias}, x);
    const std::vector<TensorId> latents =
        split(block_, "kv_a_proj", down,
              {{{"kv_a_proj", "latents"}, {dims_.b, dims_.s, rank}},
               {{"kv_a_proj", "turning"}, by_heads(Expr(1), rope_)}});
    const TensorId normed = normalized("kv_a_norm", latents[0], rank);
    const AttentionInputs rotated = rotate(block_, rotary_, {{parts[1]}, {latents[1]}, {}});
    function.local(rotated.q.id);
    function.local(down);
    // V3 gives the normed latents the name of the raw ones, which it has named before the keys.
    const bool named_first = context_.habits.latents == LatentWriting::pairs_in_halves;
    function.local(named_first ? normed : rotated.k.id);
    function.local(named_first ? rotated.k.id : normed);
    const TensorId query =
        concatenate(block_, {"query"}, {{parts[0], rotated.q.id}}, by_heads(dims_.a, dims_.d));
    const auto [key, values] = expanded(normed, rotated.k.id);
    // The values are a view of kv_b_proj's output: as long as attention keeps them, the keys' part
    // of it is kept too, a·(128 + 128) channels a token instead of a·128.
    return {{query, true}, {key, true}, {values}};
  }

 private:
  struct KeysAndValues {
    TensorId keys = 0;
    TensorId values = 0;
  };

  [[nodiscard]] Shape by_heads(const Expr& heads, const Expr& width) const {
    return {dims_.b, heads, dims_.s, width};
  }

  TensorId product(const Projection2d& shape, TensorId x) {
    return projection(block_, context_, shape, {dims_.rows(), x});
  }

  TensorId normalized(std::string_view name, TensorId x, const Expr& width) {
    return norm(block_, context_, {name, context_.decoder.norm, {width}}, x);
  }

  TensorId queries(TensorId x) {
    const Expr width = dims_.a * dims_.d;
    if (latent_.q_lora_rank == 0) return product({"q_proj", dims_.h, width}, x);
    const Expr rank = latent_.q_lora_rank;
    const TensorId down = product({"q_a_proj", dims_.h, rank, latent_.bias}, x);
    return product({"q_b_proj", rank, width}, normalized("q_a_norm", down, rank));
  }

  /// Columns of a product by heads: the gradient lies by heads, which the old shape cannot show.
  TensorId seen_by_heads(std::string_view name, TensorId x, const Expr& width) {
    const Place place = {name, "heads"};
    const Shape shape = by_heads(dims_.a, width);
    return latent_.heads == 1 ? view(block_, place, x, shape)
                              : view_copied_back(block_, place, x, shape);
  }

  /// expand_kv: the keys are an empty tensor, into which both parts are written.
  KeysAndValues expanded(TensorId normed, TensorId rotated) {
    const TensorId both =
        product({"kv_b_proj", latent_.kv_lora_rank, dims_.a * (nope_ + value_)}, normed);
    const std::vector<TensorId> parts =
        split(block_, "kv_b_proj", seen_by_heads("kv_b_proj", both, nope_ + value_),
              {{{"kv_b_proj", "still"}, by_heads(dims_.a, nope_)},
               {{"kv_b_proj", "values"}, by_heads(dims_.a, value_)}});
    const TensorId seen = of_all_heads(rotated);
    const TensorId empty =
        compute(block_, OpKind::copy, {},
                {{"key", "empty"}, by_heads(dims_.a, dims_.d), block_.dtype_of(both)});
    const TensorId half = written_into({"key", "still"}, empty, parts[0]);
    return {written_into({"key"}, half, seen), parts[1]};
  }

  /// Its gradient is the heads' sum.
  TensorId of_all_heads(TensorId x) {
    if (latent_.heads == 1) return x;
    const TensorId seen = block_.alias({"key", "of all heads"}, x, by_heads(dims_.a, rope_));
    Op op;
    op.kind = OpKind::view;
    op.name = "key";
    op.inputs = {x};
    op.outputs = {seen};
    const DType dtype = block_.dtype_of(x);
    BackwardWriter backward(op);
    backward.give(x, backward.make(x, dtype));
    backward.launch(sum_between(block_.tensor(seen).shape, block_.tensor(x).shape, dtype));
    block_.emit(std::move(op));
    return seen;
  }

  /// base[..., a:b].copy_(part): the backward copies the whole gradient, and the part of it that
  /// is the part's; in the rest's place come zeros where the base has a gradient of its own.
  TensorId written_into(Place place, TensorId base, TensorId part) {
    const DType dtype = block_.dtype_of(base);
    const TensorId out = block_.alias(place, base, block_.tensor(base).shape);
    // torch/csrc/autograd/functions/tensor.cpp, CopySlices::apply. The first copy is into
    // new_empty, which wants no gradient; the second is into what the first has written.
    const bool base_wants = block_.needs_gradient(base);
    Op op;
    op.kind = OpKind::copy;
    op.name = place.op;
    op.inputs = {base, part};
    op.outputs = {out};
    BackwardWriter backward(op);
    const auto whole = backward.make(base, dtype);
    const auto copied = backward.make(part, dtype);
    auto of_part = copied;
    if (base_wants) {
      const auto zeros = backward.make(part, dtype);
      if (block_.dtype_of(part) != dtype) {
        of_part = backward.make(part, block_.dtype_of(part));
        backward.drop(copied);
      }
      backward.drop(zeros);
      backward.give(base, whole);
    } else {
      backward.drop(whole);
    }
    backward.give(part, of_part);
    block_.emit(std::move(op));
    return out;
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const RotaryCall& rotary_;
  const Dimensions& dims_;
  const LatentAttention& latent_;
  Expr nope_;
  Expr rope_;
  Expr value_;
};

}  // namespace

TensorId latent_attention(BlockBuilder& block, const DecoderContext& context, const LayerKind& kind,
                          TensorId x) {
  const Dimensions& dims = context.dims;
  AttentionCall call = attention_call(context, kind);
  Frame frame(block);
  call.function = &frame;
  const AttentionInputs inputs = LatentWriter(block, context, {context, kind, frame}).write(x);
  for (const TensorId local : {inputs.q.id, inputs.k.id, inputs.v.id, x}) frame.local(local);
  const TensorId mixed = mixed_values(block, context, call, inputs);
  // attention_bias of the config stands on o_proj too.
  return projection(block, context, {"o_proj", dims.a * dims.value, dims.h, context.latent()->bias},
                    {dims.rows(), mixed});
}

}  // namespace memest
