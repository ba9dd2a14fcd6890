// The activation functions, one kernel each or op by op as transformers writes them in Python.
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

/// 0.5·x·(1 + tanh(c·(x + 0.044715·x³))), where autocast raises the power to fp32.
/// NewGELUActivation.forward; pow is one of AT_FORALL_FP32. x and half are kept, the cube's fp32
/// input under autocast as well: 4·b·s·ffn bytes that gelu(approximate="tanh") does without.
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
/// FastGELUActivation.forward: x appears four times, and Python works from the left:
/// (0.044715·x)·x.
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
/// QuickGELUActivation.forward.
TensorId quick_gelu(BlockBuilder& block, std::string_view name, TensorId x) {
  Frame frame(block);
  frame.local(x);
  const TensorId scaled = scale(block, {name, "scaled"}, x);
  const TensorId gate = function(block, {name, "sigmoid"}, Keeps::result, scaled);
  return multiply(block, {name}, x, gate);
}

/// One of BLOOM's element-wise steps, without a gradient of its own.
TensorId elementwise_step(BlockBuilder& block, Place place, const std::vector<TensorId>& inputs) {
  const TensorId x = inputs.front();
  return compute(block, OpKind::multiply, inputs,
                 {place, block.tensor(x).shape, block.dtype_of(x)});
}

/// The backward of gelu_bloom, expression by expression of bloom_gelu_back.
void write_gelu_bloom_backward(BlockBuilder& block, TensorId x, Op& op) {
  BackwardWriter backward(op);
  using Made = BackwardWriter::Made;
  const DType dtype = block.dtype_of(x);
  const auto make = [&] { return backward.make(x, dtype); };
  const auto from = [&](std::initializer_list<Made> used) {
    const Made result = make();
    for (const Made one : used) backward.drop(one);
    return result;
  };
  const Made linear_term = make();
  const Made inner = from({from({make()})});  // 1 + (0.044715·x)·x
  const Made argument = from({linear_term, inner});
  const Made tangent = from({argument});
  const Made half = make();
  const Made rest = from({make()});  // 1 - tanh²
  const Made slope = from({from({make()})});
  const Made product = from({half, from({rest, slope})});
  const Made other_half = from({from({})});
  const Made factor = from({product, other_half});
  const Made gradient = from({});
  backward.drop(tangent);
  backward.drop(factor);
  backward.give(x, gradient);
}

/// x·0.5·(1 + tanh(0.79788456·x·(1 + 0.044715·x·x))) as a function with a backward of its own: x is
/// all that it keeps.
TensorId gelu_bloom(BlockBuilder& block, std::string_view name, TensorId x) {
  const TensorId half = elementwise_step(block, {name, "half"}, {x});
  const TensorId linear_term = elementwise_step(block, {name, "linear term"}, {x});
  const TensorId scaled = elementwise_step(block, {name, "scaled"}, {x});
  const TensorId square = elementwise_step(block, {name, "square"}, {scaled, x});
  const TensorId raised_square = elementwise_step(block, {name, "1 + square"}, {square});
  const TensorId inner = elementwise_step(block, {name, "argument"}, {linear_term, raised_square});
  const TensorId tangent = elementwise_step(block, {name, "tanh"}, {inner});
  const TensorId raised = elementwise_step(block, {name, "1 + tanh"}, {tangent});
  const TensorId out = block.make({name}, block.tensor(x).shape, block.dtype_of(x));
  Op op;
  op.kind = OpKind::activation;
  op.name = name;
  op.inputs = {x, half, raised};
  op.outputs = {out};
  op.saved = {x};
  write_gelu_bloom_backward(block, x, op);
  block.emit(std::move(op));
  return out;
}

/// relu(x)², where autocast raises the power to fp32.
/// ReLUSquaredActivation.forward: torch.square is pow(2), and names relu_applied.
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
    case ActivationFunction::gelu_bloom:
      if (python) return gelu_bloom(block, name, x);
      break;
    // Their backward reads the result: relu's follows where it is positive, tanh's is grad·(1 −
    // result²).
    case ActivationFunction::relu:
    case ActivationFunction::sigmoid:
    case ActivationFunction::tanh:
      return function(block, {name}, Keeps::result, x);
    case ActivationFunction::relu2:
      return relu_squared(block, name, x);
    case ActivationFunction::gelu:
    case ActivationFunction::gelu_tanh:
    case ActivationFunction::silu:
    case ActivationFunction::relu6:
      break;
  }
  return function(block, {name}, Keeps::input, x);
}

}  // namespace memest
