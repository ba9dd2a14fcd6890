// MLP with bias_activation_fusion: SwiGLUFunction and GeLUFunction, autograd functions that keep
// what they are given and are written expression by expression (torch.compile left out).
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/megatron/megatron.hpp"

namespace memest {
namespace {

/// Backward temporaries of one size, by the expressions that make and use them.
class Expressions {
 public:
  using Made = BackwardWriter::Made;

  Expressions(BackwardWriter& backward, TensorId like, DType dtype)
      : backward_(backward), like_(like), dtype_(dtype) {}

  /// A new tensor, made while `used` are still there, which then go.
  Made of(std::initializer_list<Made> used = {}) {
    const Made made = backward_.make(like_, dtype_);
    for (const Made one : used) backward_.drop(one);
    return made;
  }

 private:
  BackwardWriter& backward_;
  TensorId like_;
  DType dtype_;
};

/// The halves of y, like `half`, and the type of the gradient that comes.
struct SwigluBack {
  TensorId half = 0;
  TensorId y = 0;
  DType of_g = DType::bf16;
};

/// swiglu_back joins g·σ(y1)·(1 + y1·(1 - σ(y1)))·y2 and g·silu(y1): the gradient of y, in the type
/// of g, as what is multiplied by it is.
BackwardWriter::Made write_swiglu_back(BackwardWriter& backward, const SwigluBack& of, DType of_y) {
  Expressions made(backward, of.half, of_y);
  Expressions scaled(backward, of.half, of.of_g);
  const auto slope = made.of();
  const auto weighted = scaled.of({slope});
  const auto sigmoid = made.of();
  const auto rest = made.of({sigmoid});
  const auto transposed = made.of({rest});
  const auto raised = made.of({transposed});
  const auto product = scaled.of({weighted, raised});
  const auto of_gate = scaled.of({product});
  const auto silu = made.of();
  const auto of_linear = scaled.of({silu});
  const auto joined = backward.make(of.y, of.of_g);
  backward.drop(of_linear);
  backward.drop(of_gate);
  return joined;
}

/// silu(y1)·y2 of the halves of y: keeps y.
TensorId swiglu(BlockBuilder& block, const MegatronContext& context, TensorId y) {
  const Shape shape = context.tokens(context.f);
  const DType dtype = block.dtype_of(y);
  Op op;
  op.kind = OpKind::activation;
  op.name = "activation";
  op.inputs = {y};
  // F.silu(y_1) * y_2: the first factor lives until the product is made. Kept is y alone, [s, b,
  // 2f]; PyTorch's own nodes would keep silu(y_1) as well, a half more.
  op.forward_scratch = {scratch(block, {"activation", "silu"}, shape, dtype)};
  const TensorId out = block.make({"activation"}, shape, dtype);
  op.outputs = {out};
  op.saved = {y};
  BackwardWriter backward(op);
  backward.give(y, write_swiglu_back(backward, {out, y, dtype}, dtype));
  block.emit(std::move(op));
  return out;
}

/// One of bias_gelu's expressions, without a gradient of its own.
TensorId step(BlockBuilder& block, std::string_view name, const std::vector<TensorId>& inputs) {
  const TensorId x = inputs.front();
  return compute(block, OpKind::multiply, inputs,
                 {{"activation", name}, block.tensor(x).shape, block.dtype_of(x)});
}

/// bias_gelu_back: x, and tanh(0.79788456·x·(1 + 0.044715·x·x)), are names of the function.
void write_bias_gelu_backward(BlockBuilder& block, TensorId y, TensorId bias, Op& op) {
  const DType dtype = block.dtype_of(y);
  BackwardWriter backward(op);
  Expressions made(backward, y, dtype);
  const auto x = made.of();
  const auto linear = made.of();
  const auto square = made.of({made.of()});
  const auto inner = made.of({linear, made.of({square})});
  const auto tangent = made.of({inner});
  const auto half = made.of();
  const auto rest = made.of({made.of()});
  const auto cubic = made.of({made.of()});
  const auto slope = made.of({rest, made.of({cubic})});
  const auto product = made.of({half, slope});
  const auto other = made.of({made.of()});
  const auto factor = made.of({product, other});
  const auto gradient = made.of();
  for (const auto local : {x, tangent, factor}) backward.drop(local);
  // GeLUFunction.backward returns tmp, tmp: the bias's gradient is summed over the tokens by the
  // engine (validate_outputs, at::sum_to).
  if (block.needs_gradient(bias)) {
    backward.leave_node();
    backward.give(bias, backward.make(bias, dtype));
    backward.launch(sum_between(block.tensor(y).shape, block.tensor(bias).shape, dtype));
  }
  backward.give(y, gradient);
}

/// x·0.5·(1 + tanh(0.79788456·x·(1 + 0.044715·x·x))) of x = y + bias: keeps y.
TensorId bias_gelu(BlockBuilder& block, TensorId y, TensorId bias) {
  Frame call(block);
  const TensorId x = call.local(step(block, "with bias", {y, bias}));
  const TensorId half = step(block, "half", {x});
  const TensorId linear = step(block, "linear term", {x});
  const TensorId scaled = step(block, "scaled", {x});
  const TensorId square = step(block, "square", {scaled, x});
  const TensorId raised_square = step(block, "1 + square", {square});
  const TensorId inner = step(block, "argument", {linear, raised_square});
  const TensorId tangent = step(block, "tanh", {inner});
  const TensorId raised = step(block, "1 + tanh", {tangent});
  const TensorId out = block.make({"activation"}, block.tensor(y).shape, block.dtype_of(y));
  Op op;
  op.kind = OpKind::activation;
  op.name = "activation";
  op.inputs = {y, bias, half, raised};
  op.outputs = {out};
  op.saved = {y, bias};
  write_bias_gelu_backward(block, y, bias, op);
  block.emit(std::move(op));
  return out;
}

/// weighted_swiglu_back: the gradients of y and of the weights, which may be wider than y.
void write_weighted_back(BlockBuilder& block, BackwardWriter& backward, TensorId y,
                         TensorId weights) {
  const TensorId half = backward.output();
  const DType dtype = block.dtype_of(y);
  const DType wide = block.dtype_of(weights);
  Expressions made(backward, half, dtype);
  Expressions scaled(backward, half, wide);
  const auto weighted = scaled.of();
  auto of_y = write_swiglu_back(backward, {half, y, wide}, dtype);
  backward.drop(weighted);
  const auto silu = made.of();
  const auto again = made.of({silu});
  // g.to(w_dtype) is g itself where they are alike.
  const auto product = wide == dtype ? scaled.of({again}) : scaled.of({again, scaled.of()});
  const auto of_weights = backward.make(weights, wide);
  const Shape shape = block.tensor(half).shape;
  backward.launch(sum_between(shape, {shape.front(), Expr(1)}, wide));
  backward.drop(product);
  if (wide != dtype) {
    const auto narrowed = backward.make(y, dtype);
    backward.drop(of_y);
    of_y = narrowed;
  }
  backward.give(y, of_y);
  backward.give(weights, of_weights);
}

}  // namespace

TensorId weighted_swiglu(BlockBuilder& block, const Expr& width, TensorId y, TensorId weights) {
  constexpr std::string_view kName = "expert_activation";
  const DType dtype = block.dtype_of(y);
  const Shape shape = {block.tensor(y).shape.front(), width};
  // weighted_swiglu: swiglu(y) * weights, back in y's type; its backward recomputes swiglu(y) for
  // the gradient of the weights.
  TensorId plain = block.make({kName, "not weighted"}, shape, dtype);
  Op gate;
  gate.kind = OpKind::activation;
  gate.name = kName;
  gate.inputs = {y};
  gate.forward_scratch = {scratch(block, {kName, "silu"}, shape, dtype)};
  gate.outputs = {plain};
  block.emit(std::move(gate));
  if (const DType wide = block.dtype_of(weights); wide != dtype) {
    plain = compute(block, OpKind::multiply, {plain, weights}, {{kName, "weighted"}, shape, wide});
  }
  const TensorId out = block.make({kName}, shape, dtype);
  Op op;
  op.kind = OpKind::activation;
  op.name = kName;
  op.inputs = {y, weights, plain};
  op.outputs = {out};
  op.saved = {y, weights};
  BackwardWriter backward(op);
  write_weighted_back(block, backward, y, weights);
  block.emit(std::move(op));
  return out;
}

TensorId megatron_feed_forward(BlockBuilder& block, const MegatronContext& context, TensorId x) {
  const DenseFeedForward& part = context.feed_forward;
  Frame call(block);
  // linear_fc1 holds both halves in one matrix (MLP.__init__: ffn_hidden_size *= 2 for
  // gated_linear_unit).
  const Expr width = part.gated ? Expr(2) * context.f : context.f;
  // The router keeps what shared experts read (moe/shared_experts.py, set_save_original_input).
  const bool kept = context.norm_apart && !context.recomputes(&SelectiveRecompute::shared_experts);
  TensorId hidden = column_product(block, context,
                                   {.name = "up_proj",
                                    .in = context.h,
                                    .out = width,
                                    .gathers = context.sequence,
                                    .input_is_kept = kept},
                                   x);
  const bool jitted = context.legacy() && context.policy.implementation.bias_gelu_fusion;
  if (context.te() || jitted) {
    hidden = compiled_activation(block, context, hidden);
  } else if (context.legacy()) {
    // F.gelu(intermediate_parallel + bias_parallel), a kernel each.
    const TensorId bias = block.parameter({"up_proj", "bias"}, {context.f});
    hidden = activation(block, {.name = "activation"},
                        add(block, {"up_proj", "with bias"}, hidden, bias));
  } else if (part.gated) {
    hidden = swiglu(block, context, hidden);
  } else {
    hidden = bias_gelu(block, hidden, block.parameter({"up_proj", "bias"}, {context.f}));
  }
  call.local(hidden);
  return row_product(block, context, {"down_proj", context.f, context.h}, hidden);
}

}  // namespace memest
