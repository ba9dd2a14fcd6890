#include "graph/lower/attention/attention_core.hpp"

#include <utility>

#include "graph/lower/flash_attn/flash_attn.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

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

/// One stored head seen as all of them: gradients of all are summed.
/// x.expand: backward is at::sum_to(grad, sizes), one sum over the repeats.
TensorId seen_by_all(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                     TensorId x) {
  const TensorId out = block.alias({name, "expanded"}, x, all_heads(context.dims));
  Op op;
  op.kind = OpKind::view;
  op.name = name;
  op.inputs = {x};
  op.outputs = {out};
  op.part_of.attention_core = true;
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  backward.launch(sum_over_group(block, x, out));
  block.emit(std::move(op));
  return out;
}

/// A batched product of FLOPs `flops` into `out`; each operand is kept for the other's gradient.
/// derivatives.yaml, bmm: self: grad.bmm(mat2ᵀ), mat2: selfᵀ.bmm(grad).
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
  op.part_of.attention_core = true;
  op.causal = true;
  block.emit(std::move(op), {flops, Expr(gradients) * flops});
  return out;
}

}  // namespace

DType operand_type(const LoweringPolicy& policy) {
  return policy.autocast ? policy.compute : policy.weights;
}

AttentionCall attention_call(const DecoderContext& context, const LayerKind& kind) {
  const auto& spec = context.attention;
  const LoweringPolicy& policy = context.policy;
  const bool alibi = std::holds_alternative<AlibiPosition>(context.decoder.position);
  AttentionCall call;
  call.kernel = policy.implementation.attention;
  // Classes without _supports_sdpa: BLOOM, MPT, GPT-OSS.
  if (context.habits.eager_only) call.kernel = AttentionKernel::eager;
  if (alibi || context.habits.drops_attention) {
    call.dropout = context.dropout(context.decoder.dropout.attention);
  }
  call.gradients = policy.gradients;
  call.dtype = operand_type(policy);
  call.mask_by_head = alibi;
  call.mask = kind.sliding_window ? "sliding mask" : "causal mask";
  call.window = kind.sliding_window.value_or(0);
  // _ignore_causal_mask_sdpa returns False from kv_length >= local_attention_size on: s 4096 with a
  // window of 4096 passes a mask, s 4095 none and is_causal.
  call.masked = alibi || (kind.sliding_window && context.tokens() >= *kind.sliding_window) ||
                context.habits.masks_always || context.sees_images_whole() ||
                (context.compiles_whole() && context.program.passes_masks);
  // flash_attention_mask returns None, and the window is an argument of the kernel.
  const bool package = call.kernel == AttentionKernel::flash_2;
  if (package) call.masked = alibi;
  call.broadcast = broadcasts_heads(context);
  const std::int64_t value_dim = value_dim_of(context.decoder.attention);
  if (value_dim != spec.head_dim) call.value_dim = value_dim;
  // transformers repeats keys and values where it passes a mask.
  const bool repeated = context.repeats_by_tokens() || context.repeats_by_heads();
  // Falcon-40B has written them out for all query heads by then.
  const bool written_out = package && !call.broadcast && !repeats_heads(context);
  call.grouped = spec.kv_heads < spec.heads && !call.masked && !repeated && !written_out;
  call.repeats = repeats_heads(context) && spec.kv_heads > 1 &&
                 (call.masked || call.kernel == AttentionKernel::eager);
  if (call.kernel == AttentionKernel::sdpa) {
    call.kernel = call.broadcast ? AttentionKernel::sdpa_math
                                 : context.program.sdpa(call, spec.head_dim, policy);
  }
  // pre_process_group_query_attention_input (attention.cpp): the math kernel repeats keys and
  // values itself.
  if (call.grouped && call.kernel == AttentionKernel::sdpa_math) call.repeats = true;
  return call;
}

Shape all_heads(const Dimensions& dims) { return {dims.b, dims.a, dims.keys, dims.d}; }

Expr score_flops(const Dimensions& dims) {
  return Expr(2) * dims.b * dims.a * dims.s * dims.keys * dims.d;
}

Expr value_flops(const Dimensions& dims) {
  return Expr(2) * dims.b * dims.a * dims.s * dims.keys * dims.value;
}

Shape score_shape(const Dimensions& dims) { return {dims.b, dims.a, dims.s, dims.keys}; }

// transformers/integrations/sdpa_attention.py: repeat_kv. Falcon has no num_key_value_groups:
// _split_heads broadcasts to all heads itself (40B), or leaves one for the product (7B).
bool repeats_heads(const DecoderContext& context) {
  const auto& spec = context.attention;
  const bool own_way = context.habits.qkv_split == QkvSplit::selected;
  return spec.kv_heads < spec.heads && !own_way;
}

bool broadcasts_heads(const DecoderContext& context) {
  const auto& spec = context.attention;
  return spec.kv_heads == 1 && spec.heads > 1 && context.habits.qkv_split == QkvSplit::selected;
}

Heads broadcast_heads(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                      Heads x) {
  if (!broadcasts_heads(context)) return x;
  return {seen_by_all(block, context, name, x.id), x.packed, true};
}

Heads repeat_heads(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                   Heads x) {
  const auto& spec = context.attention;
  if (!repeats_heads(context)) return x;
  // reshape of an expanded tensor copies, but [b, 1, n, s, d] with one head can be viewed as [b, n,
  // s, d].
  if (spec.kv_heads == 1) return {seen_by_all(block, context, name, x.id), x.packed, true};
  return {core_copy(block, {name}, x.id, {all_heads(context.dims), block.dtype_of(x.id)}), true};
}

AttentionInputs repeated_by_tokens(BlockBuilder& block, const DecoderContext& context,
                                   const AttentionInputs& inputs) {
  const Dimensions& dims = context.dims;
  const Repeats repeats{
      {dims.b, dims.s, dims.a, dims.d}, dims.b * dims.s * dims.k, dims.a / dims.k, dims.d};
  // [b, s, 1, n, d] of a rank's only head can be viewed as [b, s, n, d].
  const bool single = context.attention.kv_heads == context.policy.tensor;
  const auto repeated = [&](std::string_view name, Heads x) {
    return single ? Heads{seen_by_all(block, context, name, x.id), x.packed, true}
                  : Heads{repeated_copy(block, name, x.id, repeats)};
  };
  Frame names(block);
  for (const TensorId local : {inputs.k.id, inputs.v.id}) names.local(local);
  const Heads k = repeated("k_repeat", inputs.k);
  return {inputs.q, k, repeated("v_repeat", inputs.v)};
}

AttentionInputs repeated_by_heads(BlockBuilder& block, const DecoderContext& context,
                                  const AttentionInputs& inputs) {
  const auto repeated = [&](std::string_view name, Heads x) {
    Frame renaming(block);
    renaming.local(x.id);
    return repeat_heads(block, context, name, x);
  };
  const Heads k = repeated("k_repeat", inputs.k);
  return {inputs.q, k, repeated("v_repeat", inputs.v)};
}

Heads cast_heads(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                 Heads x) {
  const DType dtype = operand_type(context.policy);
  if (block.dtype_of(x.id) == dtype) return x;
  // Tensor.to of an expanded tensor writes all of it out: n times the stored head.
  if (x.expanded) {
    return {core_copy(block, {name}, x.id, {all_heads(context.dims), dtype}), true};
  }
  return {cast(block, {name}, x.id, dtype), x.packed};
}

Heads product_operand(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                      Heads x) {
  const auto& spec = context.attention;
  // torch.matmul of 4-D operands reshapes to [b·a, s, d] for bmm. Strides of a transposed [b, s, a,
  // d] allow that view with b 1 or a 1 only; else reshape copies, and bmm keeps the copy.
  const bool as_is = (x.packed && !x.expanded) || context.policy.micro_batch == 1 ||
                     (spec.heads == 1 && !x.expanded);
  if (as_is) return x;
  const Shape shape = x.expanded ? all_heads(context.dims) : block.tensor(x.id).shape;
  return {core_copy(block, {name}, x.id, {shape, block.dtype_of(x.id)}), true};
}

TensorId core_copy(BlockBuilder& block, Place place, TensorId x, TensorForm form) {
  const DType dtype = form.dtype;
  const bool casts = block.dtype_of(x) != dtype;
  const TensorId out = block.make(place, std::move(form.shape), dtype);
  Op op;
  op.kind = casts ? OpKind::cast : OpKind::copy;
  op.name = place.op;
  op.inputs = {x};
  op.outputs = {out};
  op.part_of.attention_core = true;
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

TensorId core_softmax(BlockBuilder& block, TensorId scores, DType dtype) {
  const PartOfLayer core(block, &LayerParts::attention_core);
  return softmax(block, "softmax", scores, dtype);
}

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
  op.part_of.attention_core = true;
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  return out;
}

TensorId scores_of(BlockBuilder& block, const Dimensions& dims, Heads q, Heads k) {
  const TensorId out = block.make({"scores"}, score_shape(dims), block.dtype_of(q.id));
  return core_product(block, {q.id, k.id}, out, score_flops(dims));
}

TensorId values_of(BlockBuilder& block, const Dimensions& dims, TensorId probabilities, Heads v) {
  const TensorId out =
      block.make({"values"}, {dims.b, dims.a, dims.s, dims.value}, block.dtype_of(v.id));
  return core_product(block, {probabilities, v.id}, out, value_flops(dims));
}

bool seen_as_batches(const DecoderContext& context) {
  return context.policy.micro_batch == 1 || context.attention.heads == 1;
}

// attn_output.transpose(1, 2).contiguous() (eager_attention_forward).
TensorId join(BlockBuilder& block, const DecoderContext& context, TensorId mixed, bool of_product) {
  const Dimensions& dims = context.dims;
  const Shape joined = {dims.b, dims.s, dims.a * dims.value};
  if (context.attention.heads == 1) {
    return view(block, {"join_heads"}, mixed, joined);
  }
  const TensorId out = block.make({"join_heads"}, joined, block.dtype_of(mixed));
  Op op;
  op.kind = OpKind::copy;
  op.name = "join_heads";
  op.inputs = {mixed};
  op.outputs = {out};
  BackwardWriter backward(op);
  if (!of_product || seen_as_batches(context)) {
    backward.hand_on(mixed, Reach::through_view);
  } else {
    backward.give(mixed, backward.make(mixed, block.dtype_of(mixed)));
  }
  block.emit(std::move(op));
  return out;
}

TensorId mixed_values(BlockBuilder& block, const DecoderContext& context, const AttentionCall& call,
                      const AttentionInputs& inputs) {
  if (context.policy.context > 1) return ring_attention(block, context, call, inputs);
  switch (call.kernel) {
    case AttentionKernel::sdpa:
    case AttentionKernel::sdpa_flash:
    case AttentionKernel::sdpa_efficient:
    case AttentionKernel::sdpa_cudnn:
      return fused_attention(block, context, call, inputs);
    case AttentionKernel::flash_2:
      return package_attention(block, context, call, inputs);
    case AttentionKernel::sdpa_math:
      return math_attention(block, context, call, inputs);
    case AttentionKernel::eager:
      return eager_attention(block, context, call, inputs);
    case AttentionKernel::textbook:
      return textbook_attention(block, context, call, inputs);
    case AttentionKernel::unfused:
    case AttentionKernel::te:
      break;  // Megatron's lowering writes them
  }
  return inputs.q.id;
}

}  // namespace memest
