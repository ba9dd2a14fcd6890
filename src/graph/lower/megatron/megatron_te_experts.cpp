// Experts over layers of Transformer Engine 2.11: permutation by a map of rows (permutation.py) and
// TEGroupedMLP over GroupedLinear (module/grouped_linear.py). Read in the sources, not recorded.
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/megatron/megatron.hpp"
#include "graph/lower/megatron/megatron_adapter.hpp"
#include "graph/lower/megatron/megatron_quantized.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Products of all experts' weights with their own rows, in one call.
struct GroupedLinear {
  std::string_view name;
  std::int64_t count = 0;
  Expr rows;  ///< of one
  Expr in;
  Expr out;
  bool bias = false;           ///< added inside
  bool input_is_kept = false;  ///< or made again before it is read
};

TensorId grouped_product(BlockBuilder& block, const MegatronContext& context,
                         const GroupedLinear& product, TensorId x) {
  const DType dtype = block.dtype_of(x);
  Op op;
  op.kind = OpKind::batched_matmul;
  op.name = product.name;
  op.compute = dtype;
  op.inputs = {x};
  for (std::int64_t i = 0; i < product.count; ++i) {
    op.inputs.push_back(block.parameter({product.name, "weight"}, {product.out, product.in}));
  }
  // grouped_linear.py: inputmats are not saved where no weight wants a gradient.
  const bool trained = block.needs_gradient(op.inputs.back());
  op.saved = op.inputs;
  if (!trained) op.saved.erase(op.saved.begin());
  op.workspace = Workspace::transformer_engine;
  if (trained) op.adds_to_buffer = op.inputs.back();
  const std::size_t read = op.inputs.size();
  for (std::int64_t i = 0; i < product.count && product.bias; ++i) {
    op.inputs.push_back(block.parameter({product.name, "bias"}, {product.out}));
  }
  const TensorId out =
      block.make({product.name, "out"}, {Expr(product.count), product.rows, product.out}, dtype);
  op.outputs = {out};
  std::optional<ProductCasts> casts;
  if (context.quantized) {
    const Expr rows = Expr(product.count) * product.rows;
    casts.emplace(context, QuantizedProduct{
                               .name = product.name,
                               .weights = {op.inputs.begin() + 1,
                                           op.inputs.begin() + static_cast<std::ptrdiff_t>(read)},
                               .weight_elements = Expr(product.count) * product.in * product.out,
                               .input = rows * product.in,
                               .output = rows * product.out,
                               .input_is_kept = product.input_is_kept,
                               .trained = trained,
                               .grouped = true});
    casts->write_forward(block, x, op);
  }
  BackwardWriter backward(op);
  if (casts) casts->begin(block, backward);
  backward.give(x, backward.make(x, dtype));
  if (casts) casts->end(backward);
  for (std::size_t i = read; i < op.inputs.size(); ++i) {
    backward.give(op.inputs[i], backward.make(op.inputs[i], dtype));
  }
  op.keeps_unread = context.policy.implementation.transformer_engine == TeRelease::te_2_11;
  if (trained && !op.keeps_unread) {
    // As many as there are weights, alive together.
    const Shape weights = {Expr(product.count), product.out, product.in};
    backward.reserve(scratch(block, {product.name, "unread gradients"}, weights, dtype), dtype);
  }
  const Expr flops = Expr(2 * product.count) * product.rows * product.in * product.out;
  block.emit(std::move(op), {flops, trained ? Expr(2) * flops : flops});
  for (const TensorId kept : block.ops().back().outputs) {
    if (kept != out) block.set_needs_gradient(kept, false);
  }
  return out;
}

/// WeightedSwiGLUFunction as one kernel each way.
TensorId compiled_weighted_swiglu(BlockBuilder& block, const Shape& shape, TensorId y,
                                  TensorId weights) {
  const DType dtype = block.dtype_of(y);
  const TensorId out = block.make({"expert_activation"}, shape, dtype);
  Op op;
  op.kind = OpKind::activation;
  op.name = "expert_activation";
  op.inputs = {y, weights};
  op.outputs = {out};
  op.saved = {y, weights};
  BackwardWriter backward(op);
  const auto of_y = backward.make(y, dtype);
  const auto of_weights = backward.make(weights, dtype);
  backward.give(y, of_y);
  backward.give(weights, of_weights);
  block.emit(std::move(op));
  return out;
}

/// Whether the rows of an expert, as the job has them, are no multiple of what its recipe wants
/// (quantization.py, get_align_size_for_quantization).
bool pads_rows(const MegatronContext& context) {
  if (!context.quantized) return false;
  // Hybrid-EP's permutation pads (pad_multiple), and Fp8Padding returns what it is given.
  if (context.policy.implementation.token_dispatcher == TokenDispatcher::hybridep) return false;
  const TeRecipe recipe = context.quantized->recipe;
  const std::int64_t multiple = recipe == TeRecipe::mxfp8   ? 32
                                : recipe == TeRecipe::nvfp4 ? 64
                                                            : 16;
  const LoweringPolicy& policy = context.policy;
  Bindings sizes;
  bind_tokens(sizes, policy.micro_batch, policy.seq_len);
  sizes.set(Symbol::top_k, context.experts->top_k)
      .set(Symbol::experts, context.experts->experts)
      .set(Symbol::tensor, policy.tensor)
      .set(Symbol::expert, policy.expert);
  const Expr rows = rows_of_expert(context) * context.expert_cut();
  return rows.evaluate(sizes) % Int128{multiple} != Int128{0};
}

/// Fp8Padding copies every expert's rows up to a multiple, Fp8Unpadding back: the rows that are
/// added are not counted.
TensorId copied_rows(BlockBuilder& block, const MegatronContext& context, Place place, TensorId x) {
  if (!pads_rows(context)) return x;
  const DType dtype = block.dtype_of(x);
  const TensorId out = block.make(place, block.tensor(x).shape, dtype);
  Op op;
  op.kind = OpKind::copy;
  op.name = place.op;
  op.inputs = {x};
  op.outputs = {out};
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, dtype));
  block.emit(std::move(op));
  return out;
}

/// TEGroupedMLP._apply_bias: expert by expert t + b·p, a list of sums that is then joined.
TensorId with_expert_biases(BlockBuilder& block, const MegatronContext& context, TensorId rows,
                            TensorId probabilities) {
  if (!context.experts->expert_bias) return rows;
  constexpr std::string_view kName = "expert_bias";
  const DType dtype = block.dtype_of(rows);
  const Shape shape = block.tensor(rows).shape;  // what is made moves the tensors
  const TensorId weighted = scratch(block, {kName, "of an expert"}, {shape[1], shape[2]}, dtype);
  const TensorId sums = scratch(block, {kName, "sums"}, shape, dtype);
  Op op;
  op.kind = OpKind::add;
  op.name = kName;
  op.inputs = {rows, probabilities};
  op.saved = {probabilities};
  const std::int64_t count = context.experts->experts / context.policy.expert;
  for (std::int64_t i = 0; i < count; ++i) {
    op.inputs.push_back(block.parameter({"expert_down_proj", "bias"}, {shape[2]}));
    op.saved.push_back(op.inputs.back());
  }
  op.forward_scratch = {weighted, sums};
  op.outputs = {block.make({kName}, shape, dtype)};
  BackwardWriter backward(op);
  const auto of_rows = backward.make(rows, dtype);
  const auto product = backward.make(weighted, dtype);
  for (std::size_t i = 1; i < op.inputs.size(); ++i) {
    backward.give(op.inputs[i], backward.make(op.inputs[i], block.dtype_of(op.inputs[i])));
  }
  backward.drop(product);
  backward.give(rows, of_rows);
  const TensorId out = op.outputs.front();
  block.emit(std::move(op));
  return out;
}

}  // namespace

PermutedTokens te_permute(BlockBuilder& block, const Expr& rows, TensorId x,
                          TensorId probabilities) {
  const DType dtype = block.dtype_of(x);
  const Shape map = block.tensor(probabilities).shape;
  PermutedTokens permuted;
  const Shape widened = {map.front(), Expr(2) * map.back() + Expr(1)};
  permuted.tokens = block.make({"permute", "tokens"}, {rows, block.tensor(x).shape.back()}, dtype);
  permuted.indices = block.make({"permute", "map of rows"}, widened, DType::int32);
  permuted.probabilities =
      block.make({"permute", "own probabilities"}, {rows}, block.dtype_of(probabilities));
  Op op;
  op.kind = OpKind::copy;
  op.name = "permute";
  op.inputs = {x, probabilities};
  op.outputs = {permuted.indices, permuted.tokens, permuted.probabilities};
  op.saved = {permuted.indices};
  BackwardWriter backward(op);
  const auto of_x = backward.make(x, dtype);
  const auto of_probabilities = backward.make(probabilities, block.dtype_of(probabilities));
  backward.give(x, of_x, Reach::through_view);
  backward.give(probabilities, of_probabilities);
  block.emit(std::move(op));
  block.set_needs_gradient(permuted.indices, false);
  return permuted;
}

TensorId te_experts(BlockBuilder& block, const MegatronContext& context, TensorId tokens,
                    TensorId probabilities) {
  const Expr g = Expr(Symbol::expert_ffn_size) / context.expert_cut();
  const std::int64_t count = context.experts->experts / context.policy.expert;
  const Expr rows = rows_of_expert(context) * context.expert_cut();
  tokens = copied_rows(block, context, {"pad_experts", "tokens"}, tokens);
  probabilities = copied_rows(block, context, {"pad_experts", "probabilities"}, probabilities);
  const TensorId both = adapted_experts(
      block, context, {"expert_up_proj", context.h, Expr(2) * g, tokens},
      grouped_product(
          block, context,
          {"expert_up_proj", count, rows, context.h, Expr(2) * g, context.experts->expert_bias},
          tokens));
  const std::size_t activates = block.ops().size();
  const TensorId active =
      compiled_weighted_swiglu(block, {Expr(count), rows, g}, both, probabilities);
  // TEGroupedMLP.forward, activation_recompute: what the activation answers is thrown away behind
  // linear_fc2.
  mark_remade(block, activates, Remade::expert_activation, {active});
  const TensorId down = adapted_experts(
      block, context, {"expert_down_proj", g, context.h, active},
      grouped_product(block, context,
                      {.name = "expert_down_proj",
                       .count = count,
                       .rows = rows,
                       .in = g,
                       .out = context.h,
                       .input_is_kept = context.recomputes(&SelectiveRecompute::expert_activation)},
                      active));
  block.ops().back().drops = Remade::expert_activation;
  const TensorId out = copied_rows(block, context, {"unpad_experts", "rows"},
                                   with_expert_biases(block, context, down, probabilities));
  return view(block, {"expert_down_proj", "by row"}, out, {Expr(count) * rows, context.h});
}

}  // namespace memest
