#include <utility>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/attention/attention_core.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

/// The mask added to the scores in place.
TensorId mask_in_place(BlockBuilder& block, TensorId scores, TensorId mask) {
  const TensorId out = block.alias({"mask"}, scores, block.tensor(scores).shape);
  Op op;
  op.kind = OpKind::mask;
  op.name = "mask";
  op.inputs = {scores, mask};
  op.outputs = {out};
  // attn.add_(mask): both gradients of an addition are the incoming one, and the mask wants none.
  BackwardWriter(op).hand_on(scores);
  block.emit(std::move(op));
  return out;
}

/// The causal mask that the math kernel makes itself: boolean, then additive in `dtype`.
/// _scaled_dot_product_attention_math: at::ones({L, S}, kBool).tril(), made anew by every call,
/// then convert_boolean_attn_mask. With s 8192 each boolean one is 67 MB and the fp32 one 268 MB.
TensorId causal_mask(BlockBuilder& block, const Dimensions& dims, DType dtype) {
  const Shape square = {dims.s, dims.s};
  const TensorId ones =
      compute(block, OpKind::copy, {}, {{"mask", "ones"}, square, DType::boolean});
  const TensorId lower =
      compute(block, OpKind::mask, {ones}, {{"mask", "triangle"}, square, DType::boolean});
  const TensorId zero = compute(block, OpKind::copy, {}, {{"mask", "zero"}, {Expr(1)}, dtype});
  const TensorId lowest =
      compute(block, OpKind::copy, {}, {{"mask", "lowest value"}, {Expr(1)}, dtype});
  return compute(block, OpKind::mask, {lower, zero, lowest}, {{"mask", "additive"}, square, dtype});
}

/// softmax that gives zeros for rows without any score: it looks for them first.
TensorId safe_softmax(BlockBuilder& block, TensorId scores) {
  const Shape shape = block.tensor(scores).shape;
  // at::_safe_softmax compares the scores with -inf and asks which rows are all so;
  // derivatives.yaml has _softmax_backward_data(grad, result) for it, so the result alone is kept.
  Shape rows = shape;
  rows.back() = Expr(1);
  const TensorId out = block.make({"softmax"}, shape, block.dtype_of(scores));
  Op op;
  op.kind = OpKind::softmax;
  op.name = "softmax";
  op.inputs = {scores};
  op.outputs = {out, block.make({"softmax", "masked scores"}, shape, DType::boolean),
                block.make({"softmax", "masked rows"}, rows, DType::boolean),
                block.make({"softmax", "any masked row"}, {Expr(1)}, DType::int32)};
  op.saved = {out};
  BackwardWriter backward(op);
  const auto gradient = backward.make(out, block.dtype_of(out));
  backward.drop(backward.make(out, block.dtype_of(out)));
  backward.give(scores, gradient);
  block.emit(std::move(op));
  return out;
}

TensorId math_kernel(BlockBuilder& block, const DecoderContext& context, const AttentionCall& call,
                     const AttentionInputs& given) {
  const Dimensions& dims = context.dims;
  const PartOfLayer core(block, &LayerParts::attention_core);
  Frame frame(block);
  const std::optional<TensorId> ready = ready_mask(block, context, call);
  // Autocast casts a call's arguments from the last to the first; the kernel then widens them.
  const Heads typed_v = cast_heads(block, context, "v_operand", given.v);
  const Heads typed_k = cast_heads(block, context, "k_operand", given.k);
  const Heads typed_q = cast_heads(block, context, "q_operand", given.q);
  // The C++ arguments hold autocast's copies until the call returns.
  for (const Heads& local : {typed_v, typed_k, typed_q}) frame.local(local.id);
  const auto in_fp32 = [&](std::string_view name, Heads x) {
    x.id = frame.local(cast(block, {name, "in fp32"}, x.id, DType::fp32));
    return x;
  };
  // From PyTorch 2.5 on the math kernel widens 16-bit operands to fp32 unless
  // ctx.allowFP16BF16ReductionMathSDP(): scores of b 1, a 32, s 4096 are 32·4096²·4 B = 2.1 GB, not
  // half of it.
  const bool half = is_half(call.dtype);
  TensorId mask = 0;
  if (call.masked) mask = frame.local(mask_tensor(block, context, call, ready));
  Heads q = in_fp32("q_operand", typed_q);
  Heads k = in_fp32("k_operand", typed_k);
  Heads v = in_fp32("v_operand", typed_v);
  // Queries and keys are each multiplied by √scale before the product, which keeps both copies.
  q.id = frame.local(scale(block, {"q_operand", "scaled"}, q.id));
  if (!call.masked) mask = frame.local(causal_mask(block, dims, DType::fp32));
  if (call.grouped) {
    // repeat_interleave writes out a single head too, which transformers' repeat_kv only sees.
    const auto repeated = [&](std::string_view name, TensorId x) {
      return Heads{core_copy(block, {name}, x, {all_heads(dims), DType::fp32}), true};
    };
    k = repeated("k_repeat", k.id);
    v = repeated("v_repeat", v.id);
    for (const Heads& local : {k, v}) frame.local(local.id);
  }
  TensorId scores = [&] {
    Frame product(block);
    k.id = product.local(scale(block, {"k_operand", "scaled"}, k.id));
    q = product_operand(block, context, "q_product", q);
    k = broadcast_heads(block, context, "k_product", k);
    k = product_operand(block, context, "k_product", k);
    return scores_of(block, dims, q, k);
  }();
  scores = mask_in_place(block, scores, mask);
  TensorId probabilities = safe_softmax(block, scores);
  probabilities = frame.local(core_dropout(block, call.dropout, probabilities));
  // The second result, the probabilities in the query's type, is made though nobody asks for it.
  if (half) frame.local(cast(block, {"softmax", "in type"}, probabilities, call.dtype));
  v = broadcast_heads(block, context, "v_product", v);
  v = product_operand(block, context, "v_product", v);
  TensorId mixed = values_of(block, dims, probabilities, v);
  if (!half) return mixed;
  if (!seen_as_batches(context)) {
    mixed = view_copied_back(block, {"values", "by head"}, mixed, block.tensor(mixed).shape);
  }
  mixed = cast(block, {"values", "in type"}, mixed, call.dtype);
  return mixed;
}

}  // namespace

TensorId math_attention(BlockBuilder& block, const DecoderContext& context,
                        const AttentionCall& call, AttentionInputs inputs) {
  Frame frame(block);
  // sdpa_attention_forward: with a mask transformers itself repeats keys and values (repeat_kv), so
  // the kernel sees no groups.
  if (call.masked) {
    inputs.k = repeat_heads(block, context, "k_repeat", inputs.k);
    inputs.v = repeat_heads(block, context, "v_repeat", inputs.v);
    for (const Heads& local : {inputs.k, inputs.v}) frame.local(local.id);
  }
  const TensorId mixed = math_kernel(block, context, call, inputs);
  return join(block, context, mixed, !is_half(call.dtype));
}

}  // namespace memest
