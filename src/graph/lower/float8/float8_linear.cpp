// torchao 0.16, float8/float8_linear.py: matmul_with_hp_or_float8_args, op by op as eager PyTorch
// runs it. It saves the input and the weight as they were; each pass casts anew.
//
//   forward    out = 8(x) · 8(Wᵀ)
//   backward   dX = 8(dY) · 8(W), dW = 8(dYᵀ) · 8(X)
//
// A cast reads its operand twice: for its largest values, of which the scale is made in fp64, and
// to be scaled in fp32, clamped and written.
#include "graph/lower/float8/float8_linear.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/float8/float8_parallel.hpp"
#include "graph/lower/float8/float8_products.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

/// The linear's tensors as operands.
struct Float8Operands {
  Float8Operand input;
  Float8Operand weight;
  Float8Operand output;
  DType product = DType::bf16;
  TensorId one = 0;
};

/// Whether the ranks' products are parts of a sum (RowwiseParallel): they divide its input.
bool sums_over_ranks(std::string_view projection) {
  return projection == "o_proj" || projection == "down_proj";
}

/// Marks what lies on several tensor-parallel ranks.
void divide_over_ranks(bool sums, Float8Operands& all) {
  all.input.columns_divided = sums;
  all.weight.rows_divided = !sums;
  all.weight.columns_divided = sums;
  all.output.columns_divided = !sums;
}

Float8Operands operands_of(BlockBuilder& block, const Projection2d& shape, const Shape& rows,
                           const Op& op) {
  Expr tokens(1);
  for (const Expr& size : rows) tokens *= size;
  const auto numbers = [&](std::string_view name, const Expr& count) {
    return scratch(block, {shape.name, name}, {count}, DType::fp32);
  };
  Float8Operands all;
  all.one = numbers("scale", Expr(1));
  const TensorId a_token = numbers("a scale a token", tokens);
  const TensorId an_input = numbers("a scale an input channel", shape.in);
  const TensorId an_output = numbers("a scale an output channel", shape.out);
  const TensorId x = op.inputs[0];
  const TensorId w = op.inputs[1];
  const TensorId y = op.outputs[0];
  all.input = {x, block.dtype_of(x), tokens, shape.in, a_token, an_input};
  all.weight = {w, block.dtype_of(w), shape.out, shape.in, an_output, an_input, true};
  all.output = {y, block.dtype_of(y), tokens, shape.out, a_token, an_output};
  all.product = block.dtype_of(y);
  return all;
}

/// The input and the output's gradient come in fp8, each with its scale.
void take_in_float8(BlockBuilder& block, const Projection2d& shape, Op& op, Float8Operands& all) {
  const TensorId scale = *scale_in_float8(block, all.input.tensor);
  op.inputs.push_back(scale);
  op.saved.insert(op.saved.begin() + 1, scale);
  op.outputs.push_back(add_gradients_scale(block, shape.name, all.output.tensor));
  all.input.dtype = DType::fp8;
  all.output.dtype = DType::fp8;
}

void write_forward(BlockBuilder& block, Op& op, const DecoderContext& context,
                   const Float8Operands& of) {
  const Float8Recipe recipe = context.policy.float8->recipe;
  const Float8Scales scales =
      recipe == Float8Recipe::tensorwise ? Float8Scales::whole : Float8Scales::row;
  const Float8Writer writer(context, of.one);
  Course course;
  const Float8Cast x = writer.cast(course, of.input, scales);
  const Float8Cast w = writer.cast(course, of.weight, scales);
  // _scaled_mm_out_cuda (ATen/native/cuda/ScaledBlas.cpp): scales by rows go to cuBLASLt on compute
  // capability 9.0, elsewhere to CUTLASS's kernel.
  const bool library = scales == Float8Scales::whole || context.policy.capability == kHopper;
  const auto out = writer.multiply(course, x, w,
                                   {.like = of.output.tensor,
                                    .dtype = of.product,
                                    .fast_accumulation = true,
                                    .library = library});
  drop(course, w);
  drop(course, x);
  std::move(course).write_forward(block, op, {out});
}

/// The input's gradient, then the weight's, from what was not cast where the recipe says so.
void write_backward(BlockBuilder& block, Op& op, const DecoderContext& context,
                    const Float8Operands& of) {
  const Float8Recipe recipe = context.policy.float8->recipe;
  const Float8Scales by_row =
      recipe == Float8Recipe::tensorwise ? Float8Scales::whole : Float8Scales::row;
  const Float8Scales by_column =
      recipe == Float8Recipe::tensorwise ? Float8Scales::whole : Float8Scales::column;
  const bool plain = recipe == Float8Recipe::rowwise_with_gw_hp;
  const Float8Writer writer(context, of.one);
  const TensorId x = of.input.tensor;
  const TensorId w = of.weight.tensor;
  Course course;
  std::vector<Float8Cast> casts = {writer.cast(course, of.output, by_row)};
  casts.push_back(writer.cast(course, of.weight, plain ? Float8Scales::whole : by_column));
  Float8Product to_input{.like = x, .dtype = of.product, .right_copy = w};
  if (plain) to_input.repeated_scale = of.weight.one_a_column;
  const auto dx = writer.multiply(course, casts[0], casts[1], to_input);
  Course::Made dw = 0;
  if (plain) {
    dw = course.make("product", w, of.product);
    course.run_product();
  } else {
    casts.push_back(writer.cast(course, of.output, by_column));
    casts.push_back(writer.cast(course, of.input, by_column));
    const Float8Product to_weight{w, of.product, of.output.tensor, x};
    dw = writer.multiply(course, casts[2], casts[3], to_weight);
  }
  for (const Float8Cast& cast : casts) drop(course, cast);
  std::move(course).write_backward(op);
  BackwardWriter backward(op);
  // Under autocast the engine casts what it was given. A weight gathered in fp8 goes by the type
  // that FSDP2 would have gathered (Float8TrainingTensor's orig_dtype), the output's.
  if (of.weight.dtype != of.product && of.weight.dtype != DType::fp8) {
    backward.leave_node();
    const auto wide = backward.make(w, of.weight.dtype);
    backward.drop(dw);
    dw = wide;
  }
  const bool is_matrix = block.tensor(x).shape.size() == 2;
  backward.give(x, dx, is_matrix ? Reach::directly : Reach::through_view);
  backward.give(w, dw, Reach::through_view);
}

}  // namespace

TensorId float8_linear(BlockBuilder& block, const DecoderContext& context,
                       const Projection2d& shape, const Rows& rows) {
  Frame call(block);
  call.local(rows.x);
  const Place place{shape.name, "weight"};
  const Shape of_weight = {shape.out, shape.in};
  const TensorId weight =
      shape.tied ? block.tied_parameter(place, of_weight) : block.parameter(place, of_weight);
  if (context.policy.float8->all_gather) block.tensor(weight).dtype = DType::fp8;
  // Float8Linear.forward casts as autocast would; the weight stays as it is.
  const bool narrow = gathers_activations_in_fp8(context) && shape.name != kHeadProjection;
  const bool sums = sums_over_ranks(shape.name);
  const TensorId input = to_compute(block, shape.name, rows.x);
  Shape out_shape = rows.shape;
  out_shape.push_back(shape.out);
  Op op;
  op.kind = OpKind::linear;
  op.name = shape.name;
  op.compute = DType::fp8;
  op.inputs = {input, weight};
  op.outputs = {
      block.make({shape.name, shape.bias ? "product" : "out"}, out_shape, block.dtype_of(input))};
  op.saved = {input, weight};
  op.saves_behind = true;
  op.workspace = Workspace::cublas_lt_twice;
  const TensorId out = op.outputs.front();
  Float8Operands operands = operands_of(block, shape, rows.shape, op);
  if (context.shards_tensors()) divide_over_ranks(sums, operands);
  if (narrow) take_in_float8(block, shape, op, operands);
  if (context.compiles_layers() && shape.name != kHeadProjection) {
    // The region writes what its kernels make of it (compile/float8_in_region.cpp).
    BackwardWriter backward(op);
    backward.give(input, backward.make(input, operands.product));
    backward.give(weight, backward.make(weight, operands.product));
  } else {
    write_forward(block, op, context, operands);
    write_backward(block, op, context, operands);
  }
  const Expr flops = Expr(2) * operands.input.rows * shape.in * shape.out;
  block.emit(std::move(op), {flops, Expr(2) * flops});
  if (narrow && !sums) return with_gradient_in_float8(block, context, shape.name, out);
  if (!shape.bias) return out;
  const TensorId bias = parameter_in_compute(
      block, {shape.name, "cast bias"}, block.parameter({shape.name, "bias"}, {shape.out}), false);
  return add(block, {shape.name}, out, bias);
}

}  // namespace memest
