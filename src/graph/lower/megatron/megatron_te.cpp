// Layers of Transformer Engine 2.11 in Megatron-core 0.16.1 (extensions/transformer_engine.py).
// A LayerNormLinear is a norm and a product here: it clears the norm's output before it makes the
// gradient of its input, which is of that size, so that one node and two reach the same height.
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/attention/fused_core.hpp"
#include "graph/lower/megatron/megatron.hpp"
#include "graph/lower/megatron/megatron_quantized.hpp"

namespace memest {
namespace {

/// A product of module/linear.py; the gradient of its weight goes to the buffer of gradients.
struct TeProduct {
  Op op;
  Expr flops;
  DType dtype = DType::bf16;
};

TeProduct product_of(BlockBuilder& block, const MegatronContext& context,
                     const ParallelProduct& product, TensorId x) {
  const TensorId weight = block.parameter({product.name, "weight"}, {product.out, product.in});
  TeProduct made;
  made.dtype = block.dtype_of(x);
  const Expr tokens = product.duplicated ? context.routed_tokens() : context.b * context.s;
  made.flops = Expr(2) * tokens * product.in * product.out;
  made.op.kind = OpKind::linear;
  made.op.name = product.name;
  made.op.compute = made.dtype;
  made.op.inputs = {x, weight};
  made.op.saved = {x, weight};
  made.op.workspace = Workspace::transformer_engine;
  // fuse_wgrad_accumulation: the product writes into weight.main_grad and returns a dummy
  // (get_dummy_wgrad) in the gradient's place.
  made.op.adds_to_buffer = weight;
  if (product.bias) {
    made.op.inputs.push_back(block.parameter({product.name, "bias"}, {product.out}));
  }
  return made;
}

/// FlashAttention.forward: from [s, b, heads, d] to [b, s, heads, d], a copy of several sequences,
/// whose gradient is turned back as a view.
TensorId by_sequence(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                     TensorId x) {
  if (context.policy.micro_batch == 1) return x;
  Shape shape = block.tensor(x).shape;
  std::swap(shape[0], shape[1]);
  const TensorId turned = copy(block, {name, "by sequence"}, x, std::move(shape));
  for (InputGradient& gradient : block.ops().back().gradients) gradient.reach = Reach::transposed;
  return turned;
}

/// FlashAttnFunc, or FusedAttnFunc over cuDNN: keep what they read, the output, its log-sum-exp and
/// the state of the random numbers.
TensorId fused_core(BlockBuilder& block, const MegatronContext& context,
                    const std::vector<TensorId>& heads, bool flash) {
  const Dimensions dims = context.dimensions();
  Op op;
  op.kind = OpKind::attention;
  op.name = "attention";
  op.compute = block.dtype_of(heads[0]);
  op.causal = true;
  op.inputs = heads;
  // A window of at least the sequence is none.
  op.window = context.window < context.policy.seq_len ? context.window : 0;
  Shape mixed = block.tensor(heads[0]).shape;
  mixed.back() = context.of_values();
  const TensorId out = block.make({"attention"}, std::move(mixed), op.compute);
  op.outputs = {out,
                block.make({"attention", "log-sum-exp"}, {dims.b, dims.a, dims.s}, DType::fp32),
                block.make({"attention", "random state"}, {Expr(2)}, DType::int64)};
  op.saved = heads;
  op.saved.insert(op.saved.end(), op.outputs.begin(), op.outputs.end());
  const FusedCore core{dims, context.attention.head_dim, op.compute,
                       context.attention.kv_heads < context.attention.heads};
  BackwardWriter backward(op);
  std::vector<BackwardWriter::Made> gradients;
  for (const TensorId one : heads) gradients.push_back(backward.make(one, op.compute));
  if (flash) {
    flash_backward(block, core, backward);
  } else {
    cudnn_backward(block, core, backward);
  }
  for (std::size_t i = 0; i < heads.size(); ++i) {
    backward.give(heads[i], gradients[i], Reach::through_view);
  }
  if (context.attention.sinks) {
    // softmax_offset, whose gradient (dSoftmaxOffset) cuDNN answers in fp32.
    const TensorId sinks = block.parameter({"attention", "softmax offset"}, {dims.a});
    op.inputs.push_back(sinks);
    backward.give(sinks, backward.make(sinks, DType::fp32));
  }
  // Every score is counted, those above the diagonal too: a causal window of w has w·(2·s − w) of
  // them.
  const Expr seen =
      op.window > 0 ? Expr(op.window) * (Expr(2) * dims.s - Expr(op.window)) : dims.s * dims.s;
  // The scores again, then gradients of values, scores, queries and keys.
  const Expr scores = Expr(2) * dims.b * dims.a * seen * dims.d;
  const Expr values = Expr(2) * dims.b * dims.a * seen * context.of_values();
  block.emit(std::move(op), {scores + values, Expr(3) * scores + Expr(2) * values});
  return out;
}

}  // namespace

void add_unread_gradient(BlockBuilder& block, const MegatronContext& context, Op& op) {
  op.keeps_unread = context.policy.implementation.transformer_engine >= TeRelease::te_2_9;
  if (op.keeps_unread) return;
  BackwardWriter(op).reserve(*op.adds_to_buffer, block.dtype_of(*op.adds_to_buffer));
}

TensorId te_column_product(BlockBuilder& block, const MegatronContext& context,
                           const ParallelProduct& product, TensorId x) {
  if (context.quantized) return quantized_product(block, context, product, x);
  auto [op, flops, dtype] = product_of(block, context, product, x);
  const Shape rows = product.duplicated ? context.stream(product.out) : context.tokens(product.out);
  op.outputs = {block.make({product.name, "out"}, rows, dtype)};
  add_forward_messages(op, context, product);
  add_backward_messages(op, context, product);
  BackwardWriter backward(op);
  const Shape whole = context.tokens(product.in);
  if (product.gathers) {
    // module/linear.py gathers the input into a tensor of its own for each pass, where Megatron's
    // layers share one buffer.
    const TensorId gathered = scratch(block, {product.name, "gathered input"}, whole, dtype);
    op.forward_scratch = {gathered};
    const auto input = backward.make(gathered, dtype);
    const auto partial = backward.make(gathered, dtype);
    const auto of_input = backward.make(x, dtype);
    backward.drop(input);
    backward.drop(partial);
    backward.give(x, of_input);
  } else {
    backward.give(x, backward.make(x, dtype));
  }
  if (product.bias) backward.give(op.inputs.back(), backward.make(op.inputs.back(), dtype));
  add_unread_gradient(block, context, op);
  const TensorId out = op.outputs.front();
  block.emit(std::move(op), {flops, Expr(2) * flops});
  return out;
}

TensorId te_row_product(BlockBuilder& block, const MegatronContext& context,
                        const ParallelProduct& product, TensorId x) {
  if (context.quantized) return quantized_product(block, context, product, x);
  auto [op, flops, dtype] = product_of(block, context, product, x);
  op.outputs = {block.make({product.name, "out"}, context.stream(), dtype)};
  BackwardWriter backward(op);
  const Expr bytes = context.b * context.s * product.out * Expr(size_of(dtype));
  if (context.sequence) {
    const TensorId partial =
        scratch(block, {product.name, "partial sums"}, context.tokens(product.out), dtype);
    op.forward_scratch = {partial};
    op.forward_messages = {{.kind = MessageKind::reduce_scatter, .bytes = bytes}};
    op.backward_messages = {{.kind = MessageKind::all_gather, .bytes = bytes}};
    const auto gathered = backward.make(partial, dtype);
    backward.give(x, backward.make(x, dtype));
    backward.drop(gathered);
  } else {
    if (context.policy.tensor > 1) {
      op.forward_messages = {{.kind = MessageKind::all_reduce, .bytes = bytes}};
    }
    backward.give(x, backward.make(x, dtype));
  }
  add_unread_gradient(block, context, op);
  const TensorId out = op.outputs.front();
  block.emit(std::move(op), {flops, Expr(2) * flops});
  return out;
}

TensorId te_rotated(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                    TensorId x) {
  const TensorId table =
      block.shared(kRotaryTable, {context.s, Expr(1), Expr(1), context.d}, DType::fp32);
  const DType dtype = block.dtype_of(x);
  const TensorId out = block.make({name}, block.tensor(x).shape, dtype);
  Op op;
  op.kind = OpKind::rotary;
  op.name = name;
  op.inputs = {x, table};
  op.outputs = {out};
  // FusedRoPEFunc saves the table, which lives as long as the model: only its copies count.
  if (context.policy.offloads_layers) op.saved = {table};
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, dtype));
  block.emit(std::move(op));
  return out;
}

/// get_qkv_layout wants the three alike: with turned queries and keys the values, a part of the
/// product until here, are written out.
TensorId te_core_attention(BlockBuilder& block, const MegatronContext& context,
                           const std::vector<TensorId>& heads) {
  const PartOfLayer core(block, &LayerParts::attention_core);
  Frame call(block);
  // Flash attention 2 wants values as wide as keys; cuDNN does not.
  const bool flash =
      context.policy.implementation.attention == AttentionKernel::flash_2 && !context.latent;
  // Without a rotation all three are still parts of linear_qkv's output, a layout that
  // get_qkv_layout knows.
  const bool packed = !context.rotates() && context.attention.kv_heads == context.attention.heads;
  constexpr std::string_view kNames[] = {"q_operand", "k_operand", "v_operand"};
  std::vector<TensorId> operands = heads;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool is_part = block.tensor(operands[i]).storage != operands[i];
    if (is_part && !packed) {
      operands[i] =
          call.local(copy(block, {kNames[i]}, operands[i], block.tensor(operands[i]).shape));
    }
  }
  for (std::size_t i = 0; flash && i < operands.size(); ++i) {
    operands[i] = by_sequence(block, context, kNames[i], operands[i]);
  }
  const TensorId out = context.policy.context > 1 ? te_context_attention(block, context, operands)
                                                  : fused_core(block, context, operands, flash);
  const Shape joined = context.tokens(context.a * context.of_values());
  if (flash && context.policy.micro_batch > 1) return copy(block, {"join_heads"}, out, joined);
  return view(block, {"attention", "joined"}, out, joined);
}

/// SwiGLUFunction and GeLUFunction as one kernel each way: they keep what they are given.
TensorId compiled_activation(BlockBuilder& block, const MegatronContext& context, TensorId y) {
  const DType dtype = block.dtype_of(y);
  const TensorId out = block.make({"activation"}, context.tokens(context.f), dtype);
  Op op;
  op.kind = OpKind::activation;
  op.name = "activation";
  op.inputs = {y};
  op.saved = {y};
  op.outputs = {out};
  if (context.feed_forward.bias)
    op.inputs.push_back(block.parameter({"up_proj", "bias"}, {context.f}));
  BackwardWriter backward(op);
  const auto gradient = backward.make(y, dtype);
  if (context.feed_forward.bias) {
    const TensorId bias = op.inputs.back();
    op.saved.push_back(bias);
    if (block.needs_gradient(bias)) {
      backward.leave_node();
      backward.give(bias, backward.make(bias, dtype));
      backward.launch(sum_between(block.tensor(y).shape, block.tensor(bias).shape, dtype));
    }
  }
  backward.give(y, gradient);
  block.emit(std::move(op));
  return out;
}

}  // namespace memest
