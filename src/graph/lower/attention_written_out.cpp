#include <utility>

#include "attention.hpp"
#include "operations.hpp"

namespace memest {
namespace {

Shape all_heads(const Dimensions& dims) { return {dims.b, dims.a, dims.s, dims.d}; }

/// What a tensor of the core is made as.
struct Form {
  Shape shape;
  DType dtype = DType::bf16;
};

/// Gradients of repeated heads are summed by group.
KernelLaunch sum_over_group(const BlockBuilder& block, TensorId given, TensorId repeated) {
  const Shape& shape = block.tensor(repeated).shape;  // [b, heads, s, d]
  KernelLaunch sum;
  sum.reduced = block.tensor(repeated).elements() / block.tensor(given).elements();
  sum.inner = shape[2] * shape[3];
  sum.outer = block.tensor(given).elements() / sum.inner;
  sum.dtype = block.dtype_of(repeated);
  return sum;
}

TensorId core_copy(BlockBuilder& block, Place place, TensorId x, Form form) {
  const DType dtype = form.dtype;
  const bool casts = block.dtype_of(x) != dtype;
  const TensorId out = block.make(place, std::move(form.shape), dtype);
  Op op;
  op.kind = casts ? OpKind::cast : OpKind::copy;
  op.name = place.op;
  op.inputs = {x};
  op.outputs = {out};
  op.attention_core = true;
  BackwardWriter backward(op);
  if (casts) {
    backward.give(x, backward.make(x, block.dtype_of(x)));
  } else if (block.tensor(x).shape == block.tensor(out).shape) {
    backward.hand_on(x, Reach::through_view);
  } else {
    backward.give(x, backward.make(x, dtype));
    backward.launch(sum_over_group(block, x, out));
  }
  block.emit(std::move(op));
  return out;
}

/// Softmax of the scores in `dtype`; its result is kept. The kernel itself widens fp16 alone.
TensorId softmax(BlockBuilder& block, TensorId scores, DType dtype) {
  const Shape shape = block.tensor(scores).shape;
  const DType given = block.dtype_of(scores);
  if (given != dtype && given != DType::fp16) {
    scores = core_copy(block, {"softmax", "scores in fp32"}, scores, {shape, dtype});
  }
  const TensorId out = block.make({"softmax"}, shape, dtype);
  Op op;
  op.kind = OpKind::softmax;
  op.name = "softmax";
  op.inputs = {scores};
  op.outputs = {out};
  op.saved = {out};
  op.attention_core = true;
  BackwardWriter backward(op);
  const auto gradient = backward.make(scores, block.dtype_of(scores));
  backward.drop(backward.make(out, dtype));
  backward.give(scores, gradient);
  block.emit(std::move(op));
  return out;
}

/// Dropout inside the core, so that selective recompute drops its mask.
TensorId core_dropout(BlockBuilder& block, double probability, TensorId x) {
  if (probability <= 0) return x;
  const Shape shape = block.tensor(x).shape;
  const TensorId mask = block.make({"attention_dropout", "mask"}, shape, DType::boolean);
  const TensorId out = block.make({"attention_dropout"}, shape, block.dtype_of(x));
  Op op;
  op.kind = OpKind::dropout;
  op.name = "attention_dropout";
  op.inputs = {x};
  op.outputs = {mask, out};
  op.saved = {mask};
  op.attention_core = true;
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  return out;
}

/// A batched product of FLOPs `flops` into `out`; each operand is kept for the other's gradient.
TensorId core_product(BlockBuilder& block, std::vector<TensorId> operands, TensorId out,
                      const Expr& flops) {
  Op op;
  op.kind = OpKind::batched_matmul;
  op.name = block.tensor(out).op;
  op.compute = block.dtype_of(operands.front());
  op.inputs = std::move(operands);
  op.outputs = {out};
  op.workspace = Workspace::cublas;
  BackwardWriter backward(op);
  // The second operand's gradient comes first.
  std::int64_t gradients = 0;
  BackwardWriter::Made second = 0;
  if (block.needs_gradient(op.inputs[1])) {
    ++gradients;
    op.saved.push_back(op.inputs[0]);
    second = backward.make(op.inputs[1], block.dtype_of(op.inputs[1]));
  }
  if (block.needs_gradient(op.inputs[0])) {
    ++gradients;
    op.saved.push_back(op.inputs[1]);
    const auto first = backward.make(op.inputs[0], block.dtype_of(op.inputs[0]));
    backward.give(op.inputs[0], first, Reach::through_view);
  }
  if (block.needs_gradient(op.inputs[1])) {
    backward.give(op.inputs[1], second, Reach::through_view);
  }
  op.attention_core = true;
  op.causal = true;
  block.emit(std::move(op), {flops, Expr(gradients) * flops});
  return out;
}

TensorId scores_of(BlockBuilder& block, const Dimensions& dims, Heads q, Heads k) {
  const TensorId out = block.make({"scores"}, score_shape(dims), block.dtype_of(q.id));
  return core_product(block, {q.id, k.id}, out, score_flops(dims));
}

TensorId values_of(BlockBuilder& block, const Dimensions& dims, TensorId probabilities, Heads v) {
  const TensorId out = block.make({"values"}, all_heads(dims), block.dtype_of(v.id));
  return core_product(block, {probabilities, v.id}, out, score_flops(dims));
}

/// Whether a transposed view by heads shows one dimension of batches without a copy.
bool seen_as_batches(const DecoderContext& context) {
  return context.policy.micro_batch == 1 ||
         std::get<SoftmaxAttention>(context.decoder.attention).heads == 1;
}

/// The mixed values as [b, s, a·d]: a transposed copy.
TensorId join(BlockBuilder& block, const DecoderContext& context, TensorId mixed, DType dtype) {
  const Dimensions& dims = context.dims;
  const TensorId out = block.make({"join_heads"}, {dims.b, dims.s, dims.a * dims.d}, dtype);
  Op op;
  op.kind = OpKind::copy;
  op.name = "join_heads";
  op.inputs = {mixed};
  op.outputs = {out};
  BackwardWriter backward(op);
  // A product of batches reads a transposed gradient of one sequence as it is.
  if (seen_as_batches(context)) {
    backward.hand_on(mixed, Reach::through_view);
  } else {
    backward.give(mixed, backward.make(mixed, block.dtype_of(mixed)));
  }
  block.emit(std::move(op));
  return out;
}

/// The causal (or sliding, or ALiBi) mask added to the scores: two more score-sized tensors, gone
/// after the softmax.
TensorId masked_scores(BlockBuilder& block, const DecoderContext& context, TensorId scores) {
  const DType dtype = promoted(block.dtype_of(scores), block.precision().weights);
  const TensorId out = block.make({"mask"}, block.tensor(scores).shape, dtype);
  Op op;
  op.kind = OpKind::mask;
  op.name = "mask";
  op.inputs = {scores};
  op.outputs = {out};
  if (context.transformers() && context.habits.masks_by_fill) {
    const Dimensions& dims = context.dims;
    op.saved = {block.shared("boolean mask", {dims.b, Expr(1), dims.s, dims.s}, DType::boolean)};
  }
  op.attention_core = true;
  BackwardWriter backward(op);
  if (block.dtype_of(scores) == dtype) {
    backward.hand_on(scores);
  } else {
    backward.leave_node();
    backward.give(scores, backward.make(scores, block.dtype_of(scores)));
  }
  block.emit(std::move(op));
  return out;
}

/// The same in place, as the math kernel does.
TensorId mask_in_place(BlockBuilder& block, TensorId scores, TensorId mask) {
  const TensorId out = block.alias({"mask"}, scores, block.tensor(scores).shape);
  Op op;
  op.kind = OpKind::mask;
  op.name = "mask";
  op.inputs = {scores, mask};
  op.outputs = {out};
  BackwardWriter(op).hand_on(scores);
  block.emit(std::move(op));
  return out;
}

/// The scores over √d.
TensorId scaled_scores(BlockBuilder& block, TensorId scores) {
  const TensorId out =
      block.make({"scores", "scaled"}, block.tensor(scores).shape, block.dtype_of(scores));
  Op op;
  op.kind = OpKind::scale;
  op.name = "scores";
  op.inputs = {scores};
  op.outputs = {out};
  op.attention_core = true;
  BackwardWriter backward(op);
  backward.give(scores, backward.make(scores, block.dtype_of(scores)));
  block.emit(std::move(op));
  return out;
}

TensorId core_softcap(BlockBuilder& block, TensorId scores) {
  const AttentionCore core(block);
  return softcap(block, "softcap", scores);
}

}  // namespace

Expr score_flops(const Dimensions& dims) {
  return Expr(2) * dims.b * dims.a * dims.s * dims.s * dims.d;
}

Shape score_shape(const Dimensions& dims) { return {dims.b, dims.a, dims.s, dims.s}; }

Heads repeat_heads(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                   Heads x) {
  const auto& spec = std::get<SoftmaxAttention>(context.decoder.attention);
  if (spec.kv_heads == spec.heads) return x;
  if (spec.kv_heads == 1) return {x.id, x.packed, true};
  return {core_copy(block, {name}, x.id, {all_heads(context.dims), block.dtype_of(x.id)}), true};
}

Heads cast_heads(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                 Heads x) {
  const DType dtype = operand_type(context.policy);
  if (block.dtype_of(x.id) == dtype) return x;
  if (x.expanded) {
    return {core_copy(block, {name}, x.id, {all_heads(context.dims), dtype}), true};
  }
  return {cast(block, {name}, x.id, dtype), x.packed};
}

Heads product_operand(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                      Heads x) {
  const auto& spec = std::get<SoftmaxAttention>(context.decoder.attention);
  const bool as_is = (x.packed && !x.expanded) || context.policy.micro_batch == 1 ||
                     (spec.heads == 1 && !x.expanded);
  if (as_is) return x;
  const Shape shape = x.expanded ? all_heads(context.dims) : block.tensor(x.id).shape;
  return {core_copy(block, {name}, x.id, {shape, block.dtype_of(x.id)}), true};
}

TensorId eager_attention(BlockBuilder& block, const DecoderContext& context,
                         const AttentionCall& call, AttentionInputs inputs) {
  const Dimensions& dims = context.dims;
  const auto& spec = std::get<SoftmaxAttention>(context.decoder.attention);
  const auto operand = [&](std::string_view name, Heads x) {
    return product_operand(block, context, name, cast_heads(block, context, name, x));
  };
  // Autocast casts a function's last argument first; its casts live until the function returns.
  const auto products = [&](Heads q, Heads k) {
    Frame matmul(block);
    const Heads cast_k = cast_heads(block, context, "k_operand", k);
    const Heads cast_q = cast_heads(block, context, "q_operand", q);
    for (const TensorId id : {cast_k.id, cast_q.id}) matmul.local(id);
    const Heads left = product_operand(block, context, "q_operand", cast_q);
    return scores_of(block, dims, left, product_operand(block, context, "k_operand", cast_k));
  };
  Frame frame(block);
  const Heads repeated_k = repeat_heads(block, context, "k_repeat", inputs.k);
  const Heads v = repeat_heads(block, context, "v_repeat", inputs.v);
  for (const Heads& local : {repeated_k, v}) frame.local(local.id);
  TensorId scores = products(inputs.q, repeated_k);
  if (context.transformers()) scores = scaled_scores(block, scores);
  if (spec.softcap) scores = core_softcap(block, scores);
  scores = masked_scores(block, context, scores);
  const bool in_type =
      context.transformers() && context.habits.softmax_in_type && !block.precision().autocast;
  const TensorId probabilities = [&] {
    Frame naming(block);
    naming.local(scores);
    const TensorId wide = softmax(block, scores, in_type ? call.dtype : DType::fp32);
    const DType dtype = block.dtype_of(inputs.q.id);
    if (block.dtype_of(wide) == dtype) return wide;
    return core_copy(block, {"probabilities"}, wide, {score_shape(dims), dtype});
  }();
  TensorId dropped = core_dropout(block, call.dropout, probabilities);
  if (block.dtype_of(dropped) != call.dtype) {
    dropped = core_copy(block, {"probabilities", "cast"}, dropped, {score_shape(dims), call.dtype});
  }
  const TensorId mixed = values_of(block, dims, dropped, operand("v_operand", v));
  return join(block, context, mixed, call.dtype);
}

namespace {

/// The causal mask that the math kernel makes itself: boolean, then additive in `dtype`.
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

}  // namespace

namespace {

TensorId math_kernel(BlockBuilder& block, const DecoderContext& context, const AttentionCall& call,
                     const AttentionInputs& inputs) {
  const Dimensions& dims = context.dims;
  const auto& spec = std::get<SoftmaxAttention>(context.decoder.attention);
  const AttentionCore core(block);
  Frame frame(block);
  const auto in_fp32 = [&](std::string_view name, Heads x) {
    const Heads typed = cast_heads(block, context, name, x);
    return Heads{cast(block, {name, "in fp32"}, typed.id, DType::fp32), typed.packed};
  };
  const bool half = is_half(call.dtype);
  Heads q = half ? in_fp32("q_operand", inputs.q) : inputs.q;
  Heads k = half ? in_fp32("k_operand", inputs.k) : inputs.k;
  Heads v = half ? in_fp32("v_operand", inputs.v) : inputs.v;
  q.id = frame.local(scale(block, {"q_operand", "scaled"}, q.id));
  const TensorId mask = call.masked ? 0 : frame.local(causal_mask(block, dims, DType::fp32));
  if (spec.kv_heads < spec.heads && !call.broadcast) {
    // repeat_interleave writes out a single head too, which transformers' repeat_kv only sees.
    const auto repeated = [&](std::string_view name, TensorId x) {
      return Heads{core_copy(block, {name}, x, {all_heads(dims), DType::fp32}), true};
    };
    k = repeated("k_repeat", k.id);
    frame.local(k.id);
    v = repeated("v_repeat", v.id);
  }
  k.id = scale(block, {"k_operand", "scaled"}, k.id);
  if (call.broadcast) k.expanded = v.expanded = true;
  q = product_operand(block, context, "q_product", q);
  if (call.broadcast) k = product_operand(block, context, "k_product", k);
  TensorId scores = scores_of(block, dims, q, k);
  scores = call.masked ? masked_scores(block, context, scores) : mask_in_place(block, scores, mask);
  TensorId probabilities = safe_softmax(block, scores);
  probabilities = core_dropout(block, call.dropout, probabilities);
  if (half) cast(block, {"softmax", "in type"}, probabilities, call.dtype);
  v = product_operand(block, context, "v_product", v);
  TensorId mixed = values_of(block, dims, probabilities, v);
  if (half) mixed = cast(block, {"values", "in type"}, mixed, call.dtype);
  return mixed;
}

}  // namespace

TensorId math_attention(BlockBuilder& block, const DecoderContext& context,
                        const AttentionCall& call, AttentionInputs inputs) {
  const TensorId mixed = math_kernel(block, context, call, inputs);
  return join(block, context, mixed, call.dtype);
}

TensorId textbook_attention(BlockBuilder& block, const DecoderContext& context,
                            const AttentionCall& call, AttentionInputs inputs) {
  const Dimensions& dims = context.dims;
  const TensorId scores = scores_of(block, dims, inputs.q, inputs.k);
  TensorId probabilities = softmax(block, scores, call.dtype);
  probabilities = core_dropout(block, call.dropout, probabilities);
  const TensorId mixed = values_of(block, dims, probabilities, inputs.v);
  return view(block, {"values", "joined"}, mixed, {dims.b, dims.s, dims.a * dims.d});
}

}  // namespace memest
