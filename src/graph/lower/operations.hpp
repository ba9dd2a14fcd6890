// The operations that every family is written in, each with its autograd rule (what PyTorch's
// derivatives.yaml saves) and autocast's casts. A function emits its op and answers the output.
#pragma once

#include <string_view>

#include "block_builder.hpp"
#include "memest/spec/decoder.hpp"

namespace memest {

/// `x` in `dtype`: itself, or a copy.
TensorId cast(BlockBuilder& block, Place place, TensorId x, DType dtype);
/// `x` as a contraction takes it: under autocast in the compute type, a copy for every consumer.
TensorId to_compute(BlockBuilder& block, std::string_view op, TensorId x);

/// A matrix product with a parameter of [out, in].
struct Projection2d {
  std::string_view name;
  Expr in;
  Expr out;
  bool bias = false;
  bool tied = false;           ///< the weight belongs to another block
  bool separate_bias = false;  ///< the bias is added by an op of its own, in the wider type
  Shape scattered_to = {};     ///< rows of the output where it is scattered after the product
};
/// `x` of `rows` + [in] to `rows` + [out]; `rows` may be more than x's own where x is gathered
/// first.
TensorId linear(BlockBuilder& block, const Projection2d& shape, const Shape& rows, TensorId x);

TensorId add(BlockBuilder& block, std::string_view name, TensorId left, TensorId right);
TensorId multiply(BlockBuilder& block, std::string_view name, TensorId left, TensorId right);
/// `x` times a Python number: nothing is kept.
TensorId scale(BlockBuilder& block, std::string_view name, TensorId x);
/// cap·tanh(x/cap): the hyperbolic tangent is kept.
TensorId softcap(BlockBuilder& block, std::string_view name, TensorId x);
/// `x` with each element zeroed with `probability`; `x` itself for 0.
TensorId dropout(BlockBuilder& block, std::string_view name, double probability, TensorId x);

/// How the activation functions of several kernels are written.
enum class ActivationWriting {
  one_kernel,
  python  ///< gelu_new, gelu_fast and quick_gelu op by op
};
struct ActivationPart {
  std::string_view name;
  ActivationFunction function = ActivationFunction::gelu;
  ActivationWriting writing = ActivationWriting::one_kernel;
};
TensorId activation(BlockBuilder& block, const ActivationPart& part, TensorId x);

/// A tensor that lives within one pass of one op.
TensorId scratch(BlockBuilder& block, Place place, Shape shape, DType dtype);

/// The wider of two floating types, as PyTorch promotes.
DType promoted(DType left, DType right);

}  // namespace memest
