#include "graph/lower/images/images.hpp"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

/// Weight and bias as the convolution reads them, and the image: autocast casts a call's arguments
/// from the last to the first.
struct Operands {
  TensorId image = 0;
  TensorId weight = 0;
  std::optional<TensorId> bias = {};
};

Operands operands_of(BlockBuilder& block, const ConvolutionLayer& layer, TensorId x) {
  const Expr from(layer.transposed ? layer.in : layer.out);
  const Expr to((layer.transposed ? layer.out : layer.in) / layer.groups);
  Operands made;
  made.weight = block.parameter({"conv", "weight"},
                                {from, to, Expr(layer.kernel.height), Expr(layer.kernel.width)});
  if (layer.bias) made.bias = block.parameter({"conv", "bias"}, {Expr(layer.out)});
  if (made.bias) made.bias = parameter_in_compute(block, {"conv", "cast bias"}, *made.bias);
  made.weight = parameter_in_compute(block, {"conv", "cast weight"}, made.weight);
  made.image = to_compute(block, "conv", x);
  return made;
}

/// The steps of a backward whose kernels copy a gradient that is a part of a joint's.
class StepsOfPart {
 public:
  using Made = BackwardWriter::Made;

  explicit StepsOfPart(BlockBuilder& block, Op& op)
      : op_(op), copy_(static_cast<Made>(op.backward_tensors.size())) {
    const TensorId out = op.outputs.front();
    op.backward_tensors.push_back({out, block.dtype_of(out)});
  }

  void copy() { op_.steps_of_part.push_back({StepKind::allocate, copy_}); }
  void drop() { op_.steps_of_part.push_back({StepKind::free, copy_}); }
  void make(Made made) { op_.steps_of_part.push_back({StepKind::allocate, made}); }
  /// The steps from the `first` on as they are.
  void rest(std::size_t first) {
    const auto begin = op_.backward_steps.begin() + static_cast<std::ptrdiff_t>(first);
    op_.steps_of_part.insert(op_.steps_of_part.end(), begin, op_.backward_steps.end());
  }

 private:
  Op& op_;
  Made copy_;
};

enum class ConvolutionKernel : std::uint8_t { cudnn, cudnn_transposed, depthwise };

ConvolutionKernel kernel_of(const ConvolutionLayer& layer) {
  if (layer.transposed) return ConvolutionKernel::cudnn_transposed;
  // Convolution.cpp, ConvParams::is_depthwise, of contiguous images.
  const bool depthwise = layer.groups > 1 && layer.groups == layer.in && layer.out % layer.in == 0;
  return depthwise ? ConvolutionKernel::depthwise : ConvolutionKernel::cudnn;
}

/// convolution_backward: cuDNN's makes the gradient of the image, then that of the weight;
/// conv_depthwise2d_backward_cuda makes the weight's first. The bias's is a sum of the output's
/// over images and pixels.
void write_convolution_backward(BlockBuilder& block, const Operands& operands,
                                ConvolutionKernel kernel, Op& op) {
  BackwardWriter backward(op);
  std::vector<BackwardWriter::Made> made;
  const auto give = [&](TensorId input) {
    if (!block.needs_gradient(input)) return;
    made.push_back(backward.make(input, block.dtype_of(input)));
    backward.give(input, made.back());
  };
  const bool depthwise = kernel == ConvolutionKernel::depthwise;
  give(depthwise ? operands.weight : operands.image);
  give(depthwise ? operands.image : operands.weight);
  const std::size_t own = op.backward_steps.size();
  if (operands.bias && block.needs_gradient(*operands.bias)) {
    give(*operands.bias);
    const Tensor& out = block.tensor(op.outputs.front());
    KernelLaunch sum;
    sum.kind = KernelLaunch::Kind::channel_sum;
    sum.outer = out.shape[0];
    sum.reduced = out.shape[1];
    sum.inner = out.shape[2] * out.shape[3];
    sum.dtype = out.dtype;
    backward.launch(std::move(sum));
  }
  // raw_cudnn_convolution_backward_input_out and _weight_out are given grad_output.contiguous()
  // each, cudnn_convolution_transpose_backward and the depthwise one make it once.
  StepsOfPart part(block, op);
  if (kernel == ConvolutionKernel::cudnn) {
    if (own == 2) {
      part.make(made[0]);
      part.copy();
      part.drop();
    }
    part.copy();
    part.make(made[own - 1]);
    part.drop();
  } else {
    part.copy();
    for (std::size_t i = 0; i < own; ++i) part.make(made[i]);
    part.drop();
  }
  part.rest(own);
}

/// The result of a pool and what its backward reads: x, and of a maximum where it lay.
TensorId pooled(BlockBuilder& block, TensorId x, const Features& after, Pooling kind) {
  const Shape shape = shape_of(after);
  const TensorId out = block.make({"pool"}, shape, block.dtype_of(x));
  Op op;
  op.kind = OpKind::pooling;
  op.name = "pool";
  op.inputs = {x};
  op.outputs = {out};
  // MaxPool2DWithIndicesBackward0 keeps self and result1, int64 indices; AvgPool2DBackward0 and
  // AdaptiveAvgPool2DBackward0 keep self.
  op.saved = {x};
  if (kind == Pooling::maximum) {
    op.outputs.push_back(block.make({"pool", "indices"}, shape, DType::int64));
    op.saved.push_back(op.outputs.back());
  }
  BackwardWriter backward(op);
  const auto gradient = backward.make(x, block.dtype_of(x));
  backward.give(x, gradient);
  // max_pool2d_with_indices_backward_out_cuda, avg_pool2d_backward_out_cuda and the adaptive ones
  // take gradOutput.contiguous().
  StepsOfPart part(block, op);
  part.make(gradient);
  part.copy();
  part.drop();
  block.emit(std::move(op));
  return out;
}

/// adaptive_avg_pool2d of one pixel is input.mean({-1, -2}, keepdim=True), which keeps nothing.
TensorId mean_of_pixels(BlockBuilder& block, TensorId x, const Features& after) {
  const Shape& shape = block.tensor(x).shape;
  KernelLaunch sum;
  sum.outer = shape[0] * shape[1];
  sum.reduced = shape[2] * shape[3];
  sum.dtype = block.dtype_of(x);
  const TensorId out = block.make({"pool"}, shape_of(after), block.dtype_of(x));
  Op op;
  op.kind = OpKind::reduce;
  op.name = "pool";
  op.inputs = {x};
  op.outputs = {out};
  op.forward_launches = {std::move(sum)};
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  return out;
}

}  // namespace

Shape shape_of(const Features& features) {
  Shape shape = {Symbol::micro_batch, Expr(features.channels)};
  if (!features.sides) return shape;
  shape.emplace_back(features.sides->height);
  shape.emplace_back(features.sides->width);
  return shape;
}

TensorId convolution(BlockBuilder& block, const ImageLayer<ConvolutionLayer>& given, TensorId x) {
  const ConvolutionLayer& layer = given.layer;
  const Operands operands = operands_of(block, layer, x);
  const TensorId out = block.make({"conv"}, shape_of(given.after), block.dtype_of(operands.weight));
  Op op;
  op.kind = OpKind::convolution;
  op.name = "conv";
  op.compute = block.dtype_of(operands.weight);
  op.inputs = {operands.image, operands.weight};
  if (operands.bias) op.inputs.push_back(*operands.bias);
  op.outputs = {out};
  // ConvolutionBackward0 keeps input and weight. A plan of cuDNN's may ask for a workspace, which
  // is not known; none is assumed.
  op.saved = {operands.image, operands.weight};
  write_convolution_backward(block, operands, kernel_of(layer), op);
  // FlopCounterMode's conv_flop_count: every pixel of the output, or of the input where it is
  // transposed, times the weight.
  const Shape& pixels = block.tensor(layer.transposed ? operands.image : out).shape;
  const Expr flops =
      Expr(2) * pixels[0] * pixels[2] * pixels[3] * block.tensor(operands.weight).elements();
  const Expr gradients((block.needs_gradient(operands.image) ? 1 : 0) +
                       (block.needs_gradient(operands.weight) ? 1 : 0));
  block.emit(std::move(op), {flops, gradients * flops});
  return out;
}

TensorId batch_norm(BlockBuilder& block, const BatchNormLayer& layer, TensorId x) {
  const Shape channels = {Expr(layer.size)};
  const TensorId gain = block.parameter({"batchnorm", "weight"}, channels);
  const TensorId bias = block.parameter({"batchnorm", "bias"}, channels);
  Op op;
  op.kind = OpKind::batchnorm;
  op.name = "batchnorm";
  op.inputs = {x, gain, bias};
  // CudnnBatchNormBackward0 and NativeBatchNormBackward0 keep input, weight and the statistics of
  // the batch in fp32. cuDNN's reserve is empty in the mode of contiguous images
  // (CUDNN_BATCHNORM_SPATIAL).
  op.outputs = {block.make({"batchnorm"}, block.tensor(x).shape, block.dtype_of(x))};
  for (const std::string_view name : {"mean", "reciprocal deviation"}) {
    op.outputs.push_back(block.make({"batchnorm", name}, channels, DType::fp32));
  }
  op.saved = {x, op.outputs[1], op.outputs[2], gain};
  BackwardWriter backward(op);
  for (const TensorId input : op.inputs) {
    const auto made = backward.make(input, block.dtype_of(input));
    if (block.needs_gradient(input)) backward.give(input, made);
  }
  // _select_batch_norm_backend: cuDNN takes no bf16. Its backward reads grad_output.contiguous(),
  // PyTorch's own kernels any strides.
  if (block.dtype_of(x) != DType::bf16 && block.dtype_of(gain) != DType::bf16) {
    StepsOfPart part(block, op);
    part.copy();
    part.rest(0);
    part.drop();
  }
  const TensorId out = op.outputs.front();
  block.emit(std::move(op));
  return out;
}

TensorId pool(BlockBuilder& block, const ImageLayer<PoolLayer>& given, TensorId x) {
  return pooled(block, x, given.after, given.layer.kind);
}

TensorId adaptive_pool(BlockBuilder& block, const ImageLayer<AdaptivePoolLayer>& given,
                       TensorId x) {
  const bool is_mean = given.layer.kind == Pooling::average && given.layer.size == Sides{1, 1};
  if (is_mean) return mean_of_pixels(block, x, given.after);
  return pooled(block, x, given.after, given.layer.kind);
}

}  // namespace memest
