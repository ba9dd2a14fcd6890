// SelfAttention with DotProductAttention, and its rotary positions (rope_utils.py).
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/lower/megatron/megatron.hpp"

namespace memest {
namespace {

constexpr std::string_view kMask = "attention mask";

/// A computation of `kind` from `x` alone, in another type or none of its own.
TensorId from(BlockBuilder& block, Place place, TensorId x, DType dtype) {
  return compute(block, OpKind::rotary, {x}, {place, block.tensor(x).shape, dtype});
}

/// One of a tensor's cosines and sines: of the angles in fp32, times 1, in the tensor's type.
TensorId factor(BlockBuilder& block, Place place, TensorId table, DType dtype) {
  // _apply_rotary_pos_emb_bshd: (torch.cos(freqs) * mscale).to(t.dtype), anew for queries and for
  // keys of each layer: 4 tables of s·d·2 B a layer in bf16, which the products keep.
  const TensorId raw = from(block, place, table, DType::fp32);
  const TensorId scaled = from(block, place, raw, DType::fp32);
  if (dtype == DType::fp32) return scaled;
  return from(block, place, scaled, dtype);
}

/// Keys or values written out for every query head.
/// DotProductAttention.forward: key.repeat_interleave(..., dim=2) copies, though its comment says
/// "virtually repeated".
TensorId repeated(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                  TensorId x) {
  return repeated_copy(block, name, x,
                       {.shape = {context.s, context.b, context.a, context.d},
                        .outer = context.s * context.b * context.k,
                        .times = context.a / context.k,
                        .inner = context.d});
}

/// Queries times keys over √d in one product, added to nothing: what it would be added to is the
/// global buffer. Each factor's gradient is scaled after its product.
TensorId scores_of(BlockBuilder& block, const MegatronContext& context, TensorId q, TensorId k) {
  const Shape shape = {context.b * context.a, context.s, context.s};
  const DType dtype = block.dtype_of(q);
  const TensorId out = block.make({"scores"}, shape, dtype);
  Op op;
  op.kind = OpKind::batched_matmul;
  op.name = "scores";
  op.compute = dtype;
  op.inputs = {q, k};
  op.outputs = {out};
  op.saved = {q, k};
  op.transposed = {q, k};  // query.transpose(0, 1), key.transpose(0, 1).transpose(1, 2)
  // get_global_memory_buffer().get_tensor((b·a, s, s), dtype, "mpu") with beta 0: b 1, a 32, s 4096
  // in bf16 are 1.07 GB that stay until the process ends. Before v3.0 it was torch.empty.
  // With ALiBi the scores are added to its biases, a row a head.
  const bool preallocates =
      context.legacy() && !std::holds_alternative<AlibiPosition>(context.decoder.position);
  if (preallocates) op.forward_scratch = {scratch(block, {"scores", "preallocated"}, shape, dtype)};
  if (!context.legacy()) op.forward_buffer = block.tensor(out).bytes();
  op.workspace = Workspace::cublas;
  op.causal = true;
  BackwardWriter backward(op);
  // derivatives.yaml, baddbmm: maybe_multiply(grad.bmm(...), alpha).
  for (const TensorId operand : {q, k}) {
    const auto raw = backward.make(operand, dtype);
    const auto gradient = backward.make(operand, dtype);
    backward.drop(raw);
    backward.give(operand, gradient, Reach::transposed);
  }
  const Expr flops = Expr(2) * block.tensor(out).elements() * context.d;
  block.emit(std::move(op), {flops, Expr(2) * flops});
  // The sum that is not taken has memory that is neither written nor read.
  if (preallocates) {
    Work& forward = block.ops().back().forward;
    forward.bytes = forward.bytes - Expr(2) * block.tensor(out).bytes();
  }
  return out;
}

/// masked_fill_ on a view of the product: the product's gradient is a copy, into which that of the
/// view is filled, which comes as a tensor of its own.
TensorId masked(BlockBuilder& block, const MegatronContext& context, TensorId scores) {
  // FusedScaleMaskSoftmax.forward_torch_softmax with attention_mask_func:
  // attention_scores.masked_fill_(attention_mask, -10000.0) on a view, so autograd writes
  // CopySlices (torch/csrc/autograd/functions/tensor.cpp).
  const DType dtype = block.dtype_of(scores);
  const Shape shape = block.tensor(scores).shape;
  const TensorId mask =
      block.shared(kMask, {Expr(1), Expr(1), context.s, context.s}, DType::boolean);
  const TensorId filled = block.alias({"mask", "filled"}, scores, shape);
  Op fill;
  fill.kind = OpKind::mask;
  fill.name = "mask";
  fill.inputs = {scores, mask};
  fill.outputs = {filled};
  fill.saved = {mask};
  BackwardWriter backward(fill);
  const auto whole = backward.make(scores, dtype);
  const auto part = backward.make(scores, dtype);
  const auto unmasked = backward.make(scores, dtype);
  backward.drop(part);
  backward.drop(unmasked);
  backward.give(scores, whole);
  block.emit(std::move(fill));
  const TensorId seen = block.alias({"mask", "seen"}, filled, shape);
  Op view;
  view.kind = OpKind::view;
  view.name = "mask";
  view.inputs = {filled};
  view.outputs = {seen};
  BackwardWriter zeros(view);
  zeros.give(filled, zeros.make(scores, dtype));
  block.emit(std::move(view));
  return seen;
}

/// Probabilities times values: the values' gradient comes first.
TensorId values_of(BlockBuilder& block, const MegatronContext& context, TensorId probabilities,
                   TensorId v) {
  const DType dtype = block.dtype_of(v);
  const TensorId out = block.make({"values"}, {context.b * context.a, context.s, context.d}, dtype);
  Op op;
  op.kind = OpKind::batched_matmul;
  op.name = "values";
  op.compute = dtype;
  op.inputs = {probabilities, v};
  op.outputs = {out};
  op.saved = {probabilities, v};
  op.transposed = {v};  // value_layer.transpose(0, 1)
  op.workspace = Workspace::cublas;
  op.causal = true;
  BackwardWriter backward(op);
  const auto of_v = backward.make(v, dtype);
  backward.give(probabilities, backward.make(probabilities, dtype), Reach::through_view);
  backward.give(v, of_v, Reach::transposed);
  const Expr flops = Expr(2) * block.tensor(probabilities).elements() * context.d;
  block.emit(std::move(op), {flops, Expr(2) * flops});
  return out;
}

/// DotProductAttention: selective recompute reruns it as the attention core.
TensorId core_attention(BlockBuilder& block, const MegatronContext& context,
                        const std::vector<TensorId>& heads) {
  const PartOfLayer core(block, &LayerParts::attention_core);
  Frame call(block);
  const TensorId q = heads[0];
  TensorId k = heads[1];
  TensorId v = heads[2];
  if (context.attention.heads > context.attention.kv_heads) {
    k = call.local(repeated(block, context, "k_repeat", k));
    v = call.local(repeated(block, context, "v_repeat", v));
  }
  const TensorId scores = call.local(scores_of(block, context, q, k));
  const auto masked_softmax = [&] {
    if (context.legacy()) return legacy_softmax(block, context, scores);
    const TensorId seen = masked(block, context, scores);
    return softmax(block, "softmax", seen, block.dtype_of(seen));
  };
  const TensorId probabilities =
      call.local(dropout(block, "attention_dropout",
                         context.dropout(context.decoder.dropout.attention), masked_softmax()));
  // context.permute(2, 0, 1, 3).contiguous().
  const TensorId mixed = call.local(values_of(block, context, probabilities, v));
  return copy(block, {"join_heads"}, mixed, context.tokens(context.a * context.d));
}

/// multi_latent_attention: torch.cat((t[..., 0::2], t[..., 1::2]), dim=-1). Each slice's gradient
/// is a tensor of zeros like x into which it is copied, and one of them is added to the other.
TensorId parted(BlockBuilder& block, std::string_view name, TensorId x) {
  const DType dtype = block.dtype_of(x);
  Op op;
  op.kind = OpKind::copy;
  op.name = name;
  op.inputs = {x};
  op.outputs = {block.make({name, "parted"}, block.tensor(x).shape, dtype)};
  BackwardWriter backward(op);
  const auto even = backward.make(x, dtype);
  const auto odd = backward.make(x, dtype);
  backward.drop(odd);
  backward.give(x, even);
  const TensorId out = op.outputs.front();
  block.emit(std::move(op));
  return out;
}

/// q_layernorm, k_layernorm: over each head's channels. An input that is a part of the product is
/// copied first, and Transformer Engine keeps that instead of the part (ops/basic/rmsnorm.py).
TensorId head_norm(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                   TensorId x) {
  const Norm& norm = context.attention.qk_norm_kind;
  NormKernelPart part{.name = name, .rms = norm.kind == NormKind::rmsnorm};
  part.gain = block.parameter({name, "weight"}, {context.d});
  if (norm.bias) part.bias = block.parameter({name, "bias"}, {context.d});
  const bool is_part = block.tensor(x).storage != x;
  if (is_part && context.te()) x = copy(block, {name, "operand"}, x, block.tensor(x).shape);
  // torch.nn.RMSNorm's kernel takes a contiguous input and keeps the one that it was given.
  part.transposed = is_part && !context.te();
  return normalize(block, part, x);
}

}  // namespace

/// Everything is turned, and an empty rest joined: its gradient is a tensor of zeros like x.
TensorId local_rotated(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                       TensorId x) {
  Frame call(block);
  const Shape shape = block.tensor(x).shape;
  const DType dtype = block.dtype_of(x);
  const TensorId table =
      block.shared(kRotaryTable, {context.s, Expr(1), Expr(1), context.d}, DType::fp32);
  Shape none = shape;
  none.back() = Expr(0);
  const TensorId given = x;
  x = view(block, {name, "whole"}, given, shape);
  // t, t_pass = t[..., :rot_dim], t[..., rot_dim:], of which t_pass is empty where all channels
  // turn; torch.cat((t, t_pass)) copies all the same.
  const TensorId rest = slice(block, {name, "rest"}, given, none);
  if (context.latent) x = parted(block, name, x);
  const TensorId cosines = call.local(factor(block, {name, "cosines"}, table, dtype));
  const TensorId sines = call.local(factor(block, {name, "sines"}, table, dtype));
  TensorId sum = 0;
  {
    Frame names(block);
    if (context.latent) names.local(x);
    const TensorId cosine = multiply(block, {name, "cosine product"}, x, cosines);
    Shape half = shape;
    half.back() = half.back() / Expr(2);
    const std::vector<TensorId> halves =
        split(block, name, x, {{{name, "low half"}, half}, {{name, "high half"}, half}});
    const TensorId negated = scale(block, {name, "negated half"}, halves[1]);
    const TensorId around =
        concatenate(block, {name, "half turned"}, {{negated, halves[0]}}, shape);
    const TensorId sine = multiply(block, {name, "sine product"}, around, sines);
    sum = add(block, {name, "turned"}, cosine, sine);
  }
  return concatenate(block, {name, "joined"}, {{sum, rest}}, shape);
}

void rotary_table(BlockBuilder& block, const MegatronContext& context) {
  if (!context.rotates()) return;
  const Expr half = context.rotary_channels() / Expr(2);
  const auto make = [&](std::string_view name, const std::vector<TensorId>& inputs, Shape shape) {
    const TensorId out = block.make({"rotary_table", name}, std::move(shape), DType::fp32);
    Op op;
    op.kind = OpKind::rotary;
    op.name = "rotary_table";
    op.inputs = inputs;
    op.outputs = {out};
    // RotaryEmbedding.forward is @lru_cache: the table of s·d fp32 is made by the first call and
    // kept.
    op.once = true;
    block.emit(std::move(op));
    return out;
  };
  const TensorId counted = make("positions", {}, {context.s});
  const TensorId shifted = make("shifted positions", {counted}, {context.s});
  const TensorId angles = make("angles", {shifted}, {context.s, half});
  const TensorId table = make("table", {angles}, {context.s, context.rotary_channels()});
  block.outlive(table, kRotaryTable);
}

/// linear_proj: RowParallelLinear with skip_bias_add, whose bias bias_dropout_add adds. Attention
/// keeps what it has answered (transformer/attention.py, set_save_original_input).
TensorId attention_output(BlockBuilder& block, const MegatronContext& context, const Expr& width,
                          TensorId mixed) {
  return row_product(block, context,
                     {.name = "o_proj", .in = width, .out = context.h, .input_is_kept = true},
                     mixed);
}

TensorId megatron_attention(BlockBuilder& block, const MegatronContext& context, TensorId x) {
  if (context.latent) return megatron_latent_attention(block, context, x);
  Frame call(block);
  const Expr& d = context.d;
  const Expr width = (context.a + Expr(2) * context.k) * d;
  const TensorId both = call.local(column_product(
      block, context, {"qkv_proj", context.h, width, context.attention.q_bias, context.sequence},
      x));
  const auto by_heads = [&](const Expr& heads) { return Shape{context.s, context.b, heads, d}; };
  const std::vector<TensorId> parts = split(block, "qkv_proj", both,
                                            {{{"qkv_proj", "q"}, by_heads(context.a)},
                                             {{"qkv_proj", "k"}, by_heads(context.k)},
                                             {{"qkv_proj", "v"}, by_heads(context.k)}});
  TensorId q = parts[0];
  TensorId k = parts[1];
  // Heads of a group lie together with their key and value: of several, queries are a copy.
  // SelfAttention.get_query_key_value_tensors: [s, b, ng, np/ng · hn] is reshaped to [s, b, np,
  // hn], which one group of a rank allows as a view.
  const bool several = context.attention.kv_heads > context.policy.tensor;
  if (several && context.attention.heads > context.attention.kv_heads) {
    q = call.local(copy(block, {"q_heads"}, q, by_heads(context.a)));
  }
  if (context.attention.qk_norm == QkNorm::per_head) {
    q = call.local(head_norm(block, context, "q_norm", q));
    k = call.local(head_norm(block, context, "k_norm", k));
  }
  if (context.rotates()) {
    const auto rotation = context.te() ? te_rotated : local_rotated;
    q = call.local(rotation(block, context, "q_rotary", q));
    k = call.local(rotation(block, context, "k_rotary", k));
  }
  const auto core = context.te() ? te_core_attention : core_attention;
  const TensorId mixed = call.local(core(block, context, {q, k, parts[2]}));
  return attention_output(block, context, context.a * d, mixed);
}

}  // namespace memest
