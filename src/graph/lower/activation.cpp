// The activation functions, one kernel each or op by op as transformers writes them in Python.
#include "operations.hpp"

namespace memest {
namespace {

/// 0.5·x·(1 + tanh(c·(x + 0.044715·x³))), where autocast raises the power to fp32.
TensorId gelu_new(BlockBuilder& block, std::string_view name, TensorId x) {
  Frame frame(block);
  frame.local(x);
  const TensorId half = scale(block, {name, "half"}, x);
  const TensorId base =
      block.precision().autocast ? cast(block, {name, "in fp32"}, x, DType::fp32) : x;
  const TensorId cubed = power(block, {name, "cube"}, base);
  const TensorId scaled = scale(block, {name, "cubic term"}, cubed);
  const TensorId sum = add(block, {name, "polynomial"}, x, scaled);
  const TensorId inner = scale(block, {name, "argument"}, sum);
  const TensorId tangent = function(block, {name, "tanh"}, Keeps::result, inner);
  const TensorId raised = add_number(block, {name, "1 + tanh"}, tangent);
  return multiply(block, {name}, half, raised);
}

/// 0.5·x·(1 + tanh(0.7978845608·x·(1 + 0.044715·x·x))).
TensorId gelu_fast(BlockBuilder& block, std::string_view name, TensorId x) {
  Frame frame(block);
  frame.local(x);
  const TensorId half = scale(block, {name, "half"}, x);
  const TensorId linear_term = scale(block, {name, "linear term"}, x);
  const TensorId scaled = scale(block, {name, "scaled"}, x);
  const TensorId square = multiply(block, {name, "square"}, scaled, x);
  const TensorId raised_square = add_number(block, {name, "1 + square"}, square);
  const TensorId inner = multiply(block, {name, "argument"}, linear_term, raised_square);
  const TensorId tangent = function(block, {name, "tanh"}, Keeps::result, inner);
  const TensorId raised = add_number(block, {name, "1 + tanh"}, tangent);
  return multiply(block, {name}, half, raised);
}

/// x·sigmoid(1.702·x).
TensorId quick_gelu(BlockBuilder& block, std::string_view name, TensorId x) {
  Frame frame(block);
  frame.local(x);
  const TensorId scaled = scale(block, {name, "scaled"}, x);
  const TensorId gate = function(block, {name, "sigmoid"}, Keeps::result, scaled);
  return multiply(block, {name}, x, gate);
}

/// relu(x)², where autocast raises the power to fp32.
TensorId relu_squared(BlockBuilder& block, std::string_view name, TensorId x) {
  Frame frame(block);
  frame.local(x);
  const TensorId positive = frame.local(function(block, {name, "relu"}, Keeps::result, x));
  const TensorId base =
      block.precision().autocast ? cast(block, {name, "in fp32"}, positive, DType::fp32) : positive;
  return power(block, {name}, base);
}

}  // namespace

TensorId activation(BlockBuilder& block, const ActivationPart& part, TensorId x) {
  const std::string_view name = part.name;
  const bool python = part.writing == ActivationWriting::python;
  switch (part.function) {
    case ActivationFunction::gelu_new:
      if (python) return gelu_new(block, name, x);
      break;
    case ActivationFunction::gelu_fast:
      if (python) return gelu_fast(block, name, x);
      break;
    case ActivationFunction::quick_gelu:
      if (python) return quick_gelu(block, name, x);
      break;
    case ActivationFunction::relu:
    case ActivationFunction::sigmoid:
    case ActivationFunction::tanh:
      return function(block, {name}, Keeps::result, x);
    case ActivationFunction::relu2:
      return relu_squared(block, name, x);
    case ActivationFunction::gelu:
    case ActivationFunction::gelu_tanh:
    case ActivationFunction::gelu_bloom:
    case ActivationFunction::silu:
      break;
  }
  return function(block, {name}, Keeps::input, x);
}

}  // namespace memest
