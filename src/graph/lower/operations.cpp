#include "operations.hpp"

#include <utility>

namespace memest {
namespace {

Expr product(const Shape& shape) {
  Expr result(1);
  for (const Expr& dimension : shape) result *= dimension;
  return result;
}

/// An element-wise op over one tensor that keeps its input or its result.
enum class Keeps { nothing, input, result };

TensorId unary(BlockBuilder& block, Place place, OpKind kind, Keeps keeps, TensorId x) {
  const TensorId out = block.make(place, block.tensor(x).shape, block.dtype_of(x));
  Op op;
  op.kind = kind;
  op.name = place.op;
  op.inputs = {x};
  op.outputs = {out};
  if (keeps == Keeps::input) op.saved = {x};
  if (keeps == Keeps::result) op.saved = {out};
  block.emit(std::move(op));
  return out;
}

/// A matrix as its product reads it: under autocast a cached copy in the compute type.
TensorId weight_in_compute(BlockBuilder& block, std::string_view op, TensorId weight) {
  const Precision& precision = block.precision();
  if (!precision.autocast || precision.weights == precision.compute) return weight;
  const TensorId copy = block.make({op, "cast weight"}, block.tensor(weight).shape,
                                   precision.compute, Role::cast_parameter);
  Op cast_op;
  cast_op.kind = OpKind::cast;
  cast_op.name = op;
  cast_op.inputs = {weight};
  cast_op.outputs = {copy};
  block.emit(std::move(cast_op));
  return copy;
}

}  // namespace

DType promoted(DType left, DType right) {
  if (left == right) return left;
  return DType::fp32;
}

TensorId scratch(BlockBuilder& block, Place place, Shape shape, DType dtype) {
  return block.make(place, std::move(shape), dtype, Role::workspace);
}

TensorId cast(BlockBuilder& block, Place place, TensorId x, DType dtype) {
  if (block.dtype_of(x) == dtype) return x;
  const TensorId out = block.make(place, block.tensor(x).shape, dtype);
  Op op;
  op.kind = OpKind::cast;
  op.name = place.op;
  op.inputs = {x};
  op.outputs = {out};
  block.emit(std::move(op));
  return out;
}

TensorId to_compute(BlockBuilder& block, std::string_view op, TensorId x) {
  if (!block.precision().autocast) return x;
  return cast(block, {op, "cast input"}, x, block.precision().compute);
}

TensorId linear(BlockBuilder& block, const Projection2d& shape, const Shape& rows, TensorId x) {
  const Place weight_place{shape.name, "weight"};
  const TensorId weight = shape.tied ? block.tied_parameter(weight_place, {shape.out, shape.in})
                                     : block.parameter(weight_place, {shape.out, shape.in});
  const TensorId input = to_compute(block, shape.name, x);
  const TensorId matrix = weight_in_compute(block, shape.name, weight);
  Shape out_shape = shape.scattered_to.empty() ? rows : shape.scattered_to;
  out_shape.push_back(shape.out);
  const TensorId out = block.make({shape.name, shape.separate_bias ? "product" : "out"}, out_shape,
                                  block.dtype_of(matrix));
  Op op;
  op.kind = OpKind::linear;
  op.name = shape.name;
  op.compute = block.dtype_of(matrix);
  op.inputs = {input, matrix};
  op.outputs = {out};
  op.saved = {input};
  if (block.needs_gradient(input)) op.saved.push_back(matrix);
  TensorId bias = 0;
  if (shape.bias) {
    bias = block.parameter({shape.name, "bias"}, {shape.out});
    if (!shape.separate_bias) op.inputs.push_back(bias);
  }
  const Expr flops = Expr(2) * product(rows) * shape.in * shape.out;
  const Expr gradients(block.needs_gradient(input) ? 2 : 1);
  block.emit(std::move(op), {flops, gradients * flops});
  if (!shape.bias || !shape.separate_bias) return out;
  return add(block, shape.name, out, bias);
}

TensorId add(BlockBuilder& block, std::string_view name, TensorId left, TensorId right) {
  const DType dtype = promoted(block.dtype_of(left), block.dtype_of(right));
  const TensorId out = block.make({name}, block.tensor(left).shape, dtype);
  Op op;
  op.kind = OpKind::add;
  op.name = name;
  op.inputs = {left, right};
  op.outputs = {out};
  block.emit(std::move(op));
  return out;
}

TensorId multiply(BlockBuilder& block, std::string_view name, TensorId left, TensorId right) {
  const DType dtype = promoted(block.dtype_of(left), block.dtype_of(right));
  const TensorId out = block.make({name}, block.tensor(left).shape, dtype);
  Op op;
  op.kind = OpKind::multiply;
  op.name = name;
  op.inputs = {left, right};
  op.outputs = {out};
  if (block.needs_gradient(right)) op.saved.push_back(left);
  if (block.needs_gradient(left)) op.saved.push_back(right);
  block.emit(std::move(op));
  return out;
}

TensorId scale(BlockBuilder& block, std::string_view name, TensorId x) {
  return unary(block, {name}, OpKind::scale, Keeps::nothing, x);
}

TensorId softcap(BlockBuilder& block, std::string_view name, TensorId x) {
  const TensorId bounded =
      unary(block, {name, "tanh"}, OpKind::activation, Keeps::result, scale(block, name, x));
  return scale(block, name, bounded);
}

TensorId dropout(BlockBuilder& block, std::string_view name, double probability, TensorId x) {
  if (probability <= 0) return x;
  const Shape shape = block.tensor(x).shape;
  const TensorId mask = block.make({name, "mask"}, shape, DType::boolean);
  const TensorId out = block.make({name}, shape, block.dtype_of(x));
  Op op;
  op.kind = OpKind::dropout;
  op.name = name;
  op.inputs = {x};
  op.outputs = {out, mask};
  op.saved = {mask};
  block.emit(std::move(op));
  return out;
}

namespace {

/// gelu_new: 0.5·x·(1 + tanh(c·(x + 0.044715·x³))), where autocast raises the power to fp32.
/// Kept: x (for the power), 0.5·x, the tangent, 1 + tangent.
TensorId gelu_new(BlockBuilder& block, std::string_view name, TensorId x) {
  const Shape shape = block.tensor(x).shape;
  const TensorId cubed =
      block.precision().autocast ? cast(block, {name, "cast input"}, x, DType::fp32) : x;
  const DType inner = block.dtype_of(cubed);
  const TensorId half = block.make({name, "half"}, shape, block.dtype_of(x));
  const TensorId tangent = block.make({name, "tanh"}, shape, inner);
  const TensorId raised = block.make({name, "1 + tanh"}, shape, inner);
  const TensorId out = block.make({name}, shape, inner);
  Op op;
  op.kind = OpKind::activation;
  op.name = name;
  op.inputs = {x};
  if (cubed != x) op.inputs.push_back(cubed);
  op.outputs = {out, half, tangent, raised};
  op.saved = {cubed, half, tangent, raised};
  op.forward_scratch = {scratch(block, {name, "polynomial"}, shape, inner)};
  op.backward_scratch = {scratch(block, {name, "tanh gradient"}, shape, inner)};
  block.emit(std::move(op));
  return out;
}

/// gelu_fast and quick_gelu: products of x with functions of x, each factor kept.
TensorId factored(BlockBuilder& block, std::string_view name, std::size_t factors, TensorId x) {
  constexpr std::array<std::string_view, 6> kNames = {"factor 1", "factor 2", "factor 3",
                                                      "factor 4", "factor 5", "factor 6"};
  const Shape shape = block.tensor(x).shape;
  const DType dtype = block.dtype_of(x);
  const TensorId out = block.make({name}, shape, dtype);
  Op op;
  op.kind = OpKind::activation;
  op.name = name;
  op.inputs = {x};
  op.outputs = {out};
  op.saved = {x};
  for (std::size_t i = 0; i < factors; ++i) {
    const TensorId factor = block.make({name, kNames[i]}, shape, dtype);
    op.outputs.push_back(factor);
    op.saved.push_back(factor);
  }
  block.emit(std::move(op));
  return out;
}

}  // namespace

TensorId activation(BlockBuilder& block, const ActivationPart& part, TensorId x) {
  // gelu_fast: 0.5·x, 0.7978·x, 0.044715·x, 1 + 0.044715·x², the tangent, 1 + tangent.
  constexpr std::size_t kGeluFastFactors = 6;
  constexpr std::size_t kQuickGeluFactors = 1;  // the sigmoid
  const std::string_view name = part.name;
  const bool python = part.writing == ActivationWriting::python;
  switch (part.function) {
    case ActivationFunction::gelu_new:
      if (python) return gelu_new(block, name, x);
      break;
    case ActivationFunction::gelu_fast:
      if (python) return factored(block, name, kGeluFastFactors, x);
      break;
    case ActivationFunction::quick_gelu:
      if (python) return factored(block, name, kQuickGeluFactors, x);
      break;
    case ActivationFunction::relu:
    case ActivationFunction::sigmoid:
    case ActivationFunction::tanh:
      return unary(block, {name}, OpKind::activation, Keeps::result, x);
    case ActivationFunction::relu2: {
      const TensorId positive = unary(block, {name, "relu"}, OpKind::activation, Keeps::result, x);
      // Autocast raises the power to fp32.
      const TensorId base = block.precision().autocast
                                ? cast(block, {name, "in fp32"}, positive, DType::fp32)
                                : positive;
      return unary(block, {name}, OpKind::activation, Keeps::input, base);
    }
    case ActivationFunction::gelu:
    case ActivationFunction::gelu_tanh:
    case ActivationFunction::gelu_bloom:
    case ActivationFunction::silu:
      break;
  }
  return unary(block, {name}, OpKind::activation, Keeps::input, x);
}

}  // namespace memest
