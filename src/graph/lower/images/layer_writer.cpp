#include "graph/lower/images/layer_writer.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "graph/lower/images/images.hpp"
#include "graph/lower/ops/operations.hpp"
#include "memest/diag/expect.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Whether the function's backward reads its result, which then is kept.
bool keeps_result(ActivationFunction function) {
  switch (function) {
    case ActivationFunction::relu:
    case ActivationFunction::sigmoid:
    case ActivationFunction::tanh:
      return true;
    case ActivationFunction::gelu:
    case ActivationFunction::gelu_tanh:
    case ActivationFunction::gelu_new:
    case ActivationFunction::gelu_fast:
    case ActivationFunction::gelu_bloom:
    case ActivationFunction::quick_gelu:
    case ActivationFunction::relu2:
    case ActivationFunction::relu6:
    case ActivationFunction::silu:
      return false;
  }
  unreachable("every activation keeps its input or its result");
}

}  // namespace

ListWriter::ListWriter(const LayerStream& stream, const LoweringPolicy& policy)
    : stream_(stream),
      policy_(policy),
      block_("layer", {policy.weights, policy.compute, policy.autocast}) {
  x_ = block_.block_input(shape(), stream.dtype);
  block_.set_needs_gradient(x_, stream.needs_gradient);
  block_.tensor(x_).kept_before = stream.kept;
}

void ListWriter::write(const PlainLayer& layer) {
  // A layer's argument is named until it returns.
  Frame call(block_);
  call.local(x_);
  std::visit([this](const auto& kind) { write(kind); }, layer);
}

void ListWriter::write_loss(ListLoss loss) {
  switch (loss) {
    case ListLoss::mean_square:
      return write_mean_square();
    case ListLoss::cross_entropy:
      return write_cross_entropy();
  }
}

/// The mean square of the output; autocast takes the square in fp32.
void ListWriter::write_mean_square() {
  const TensorId x = policy_.autocast ? cast(block_, {"loss", "in fp32"}, x_, DType::fp32) : x_;
  // pow is one of AT_FORALL_FP32.
  const TensorId squares = power(block_, {"loss", "squares"}, x);
  Op op;
  op.kind = OpKind::mean_square;
  op.name = "loss";
  op.inputs = {squares};
  x_ = block_.make({"loss"}, {Expr(1)}, block_.dtype_of(x));
  op.outputs = {x_};
  KernelLaunch sum;
  sum.reduced = block_.tensor(squares).elements();
  sum.dtype = block_.dtype_of(squares);
  op.forward_launches = {std::move(sum)};
  BackwardWriter backward(op);
  backward.give(squares, backward.make(squares, block_.dtype_of(squares)));
  block_.emit(std::move(op));
}

/// F.cross_entropy(logits, labels): a label for each sample, or for each pixel.
void ListWriter::write_cross_entropy() {
  Shape labels = {Symbol::micro_batch};
  if (stream_.features.sides) {
    labels.emplace_back(stream_.features.sides->height);
    labels.emplace_back(stream_.features.sides->width);
  }
  const TensorId targets = block_.shared("labels", std::move(labels), DType::int64);
  TensorId kept = log_softmax(block_, "log_softmax", x_);
  // As decoders' loss: autocast takes the likelihood alone in fp32.
  if (policy_.autocast) kept = cast(block_, {"log_softmax_in_fp32"}, kept, DType::fp32);
  x_ = negative_likelihood(block_, kept, targets);
}

LayerStream ListWriter::stream() const {
  LayerStream next = stream_;
  next.dtype = block_.dtype_of(x_);
  next.needs_gradient = block_.needs_gradient(x_);
  next.kept = kept_;
  return next;
}

std::string_view ListWriter::unknown() {
  return policy_.micro_batch > 1 ? copy_joint_gradients(block_) : std::string_view();
}

Block ListWriter::take(bool checkpointable) && {
  return std::move(block_).take(x_, checkpointable);
}

/// The rows of a sequence, where the network reads rows from the start.
Shape ListWriter::rows() const {
  if (stream_.images) return {Symbol::micro_batch};
  return {Symbol::micro_batch, Symbol::seq_len};
}

Shape ListWriter::shape() const {
  if (stream_.features.sides) return shape_of(stream_.features);
  Shape result = rows();
  if (stream_.features.channels > 0) result.emplace_back(stream_.features.channels);
  return result;
}

Features ListWriter::after(const PlainLayer& layer) const {
  const std::optional<Features> features = features_after(layer, stream_.features);
  expect(features.has_value(), "the reader has seen that images are large enough");
  return *features;
}

void ListWriter::write(const LinearLayer& layer) {
  x_ = linear(block_, {"linear", Expr(layer.in), Expr(layer.out), layer.bias}, {rows(), x_});
  stream_.features.channels = layer.out;
  kept_ = false;
}

void ListWriter::write(const ActivationLayer& layer) {
  const TensorId given = x_;
  const bool keeps = keeps_result(layer.function);
  kept_ = false;
  if (layer.in_place && !keeps) {
    x_ = overwritten();
    return;
  }
  x_ = activation(block_, {"activation", layer.function, ActivationWriting::one_kernel}, x_);
  // nn.ReLU(inplace=True): relu_'s backward reads the result, so that the input may be overwritten.
  if (layer.in_place) block_.tensor(x_).storage = block_.tensor(given).storage;
  kept_ = keeps && block_.needs_gradient(x_);
}

/// A function in place whose backward reads its input, of which autograd keeps a copy.
TensorId ListWriter::overwritten() {
  // VariableType.cpp: original_self = self.clone() where the formula of an in-place operation reads
  // self (hardtanh_, silu_).
  const TensorId original =
      block_.make({"activation", "original"}, block_.tensor(x_).shape, block_.dtype_of(x_));
  block_.tensor(original).for_backward = true;
  return rewritten(OpKind::activation, "activation", original);
}

/// x written anew in its own memory; the backward reads `kept`, which the operation makes first.
TensorId ListWriter::rewritten(OpKind kind, std::string_view name, TensorId kept) {
  Op op;
  op.kind = kind;
  op.name = name;
  op.inputs = {x_};
  const TensorId out = block_.alias({name}, x_, block_.tensor(x_).shape);
  op.outputs = {kept, out};
  op.saved = {kept};
  BackwardWriter backward(op);
  backward.give(x_, backward.make(x_, block_.dtype_of(x_)));
  block_.emit(std::move(op));
  return out;
}

void ListWriter::write(const NormLayer& layer) {
  const bool rms = layer.kind == NormKind::rmsnorm;
  // Autocast runs layer_norm in fp32 and leaves rms_norm alone.
  const TensorId x =
      policy_.autocast && !rms ? cast(block_, {"norm", "in fp32"}, x_, DType::fp32) : x_;
  NormKernelPart part = {.name = "norm", .rms = rms};
  part.gain = block_.parameter({"norm", "weight"}, {Expr(layer.size)});
  if (!rms && layer.bias) part.bias = block_.parameter({"norm", "bias"}, {Expr(layer.size)});
  x_ = normalize(block_, part, x);
  kept_ = false;
}

void ListWriter::write(const SoftmaxLayer&) {
  x_ = softmax(block_, "softmax", x_, policy_.autocast ? DType::fp32 : block_.dtype_of(x_));
  kept_ = block_.needs_gradient(x_);
}

void ListWriter::write(const DropoutLayer& layer) {
  const double probability = policy_.dropout ? layer.probability : 0.0;
  if (probability <= 0) return;
  x_ = layer.in_place ? dropped_in_place() : dropout(block_, "dropout", probability, x_);
  kept_ = false;
}

/// x times noise in its own type, which is kept.
TensorId ListWriter::dropped_in_place() {
  // F.dropout(inplace=True) is at::dropout_, which is not native_dropout:
  // empty_like(input).bernoulli_(1 − p).div_(1 − p), then input.mul_(noise). Its noise takes 2 or 4
  // bytes an element, the other's mask one.
  const TensorId noise =
      block_.make({"dropout", "noise"}, block_.tensor(x_).shape, block_.dtype_of(x_));
  return rewritten(OpKind::dropout, "dropout", noise);
}

void ListWriter::write(const EmbeddingLayer& layer) {
  const TensorId table =
      block_.parameter({"embedding", "weight"}, {Expr(layer.rows), Expr(layer.size)});
  stream_.features.channels = layer.size;
  block_.tensor(x_).dtype = DType::int64;
  const std::int64_t count = checked_multiply(policy_.micro_batch, policy_.seq_len);
  x_ = look_up(block_, "embedding", {x_, table, count, layer.rows});
  kept_ = false;
}

void ListWriter::write(const ConvolutionLayer& layer) {
  const Features made = after(layer);
  x_ = convolution(block_, {layer, made}, x_);
  stream_.features = made;
  kept_ = false;
}

void ListWriter::write(const BatchNormLayer& layer) {
  x_ = batch_norm(block_, layer, x_);
  kept_ = false;
}

void ListWriter::write(const PoolLayer& layer) {
  const Features made = after(layer);
  x_ = pool(block_, {layer, made}, x_);
  stream_.features = made;
  kept_ = false;
}

void ListWriter::write(const AdaptivePoolLayer& layer) {
  const Features made = after(layer);
  x_ = adaptive_pool(block_, {layer, made}, x_);
  stream_.features = made;
  kept_ = false;
}

void ListWriter::write(const FlattenLayer& layer) {
  stream_.features = after(layer);
  x_ = view(block_, {"flatten"}, x_, shape());
}

TensorId ListWriter::way(const std::vector<PlainLayer>& layers, TensorId given,
                         const Features& features) {
  x_ = given;
  stream_.features = features;
  for (const PlainLayer& layer : layers) write(layer);
  return x_;
}

void ListWriter::write(const ResidualLayer& layer) {
  Frame call(block_);
  const TensorId given = x_;
  const Features features = stream_.features;
  const TensorId body = call.local(way(layer.body, given, features));
  const Features made = stream_.features;
  const TensorId shortcut = way(layer.shortcut, given, features);
  stream_.features = made;
  if (layer.in_place) {
    // torchvision's BasicBlock: out += identity.
    x_ = add(block_, {"residual"}, body, shortcut);
    block_.tensor(x_).storage = block_.tensor(body).storage;
  } else {
    // torchvision's InvertedResidual: x + self.conv(x).
    x_ = add(block_, {"residual"}, shortcut, body);
  }
  kept_ = false;
}

/// torch.cat(parts, 1).
void ListWriter::join(const std::vector<TensorId>& parts, std::int64_t channels) {
  stream_.features.channels = channels;
  x_ = concatenate(block_, {"concat"}, {parts}, shape());
  kept_ = false;
}

void ListWriter::write(const ConcatLayer& layer) {
  Frame call(block_);
  const TensorId given = x_;
  const Features features = stream_.features;
  std::vector<TensorId> parts;
  std::int64_t channels = 0;
  for (const std::vector<PlainLayer>& branch : layer.branches) {
    parts.push_back(call.local(way(branch, given, features)));
    channels += stream_.features.channels;
  }
  join(parts, channels);
  if (!layer.then.empty()) call.local(x_);
  for (const PlainLayer& next : layer.then) write(next);
}

/// torchvision's _DenseBlock: every layer joins the list of all features so far, the block the
/// whole.
void ListWriter::write(const DenseLayer& layer) {
  Frame call(block_);
  std::vector<TensorId> parts = {x_};
  std::int64_t channels = stream_.features.channels;
  for (const std::vector<PlainLayer>& round : layer.rounds) {
    Frame of_layer(block_);
    join(parts, channels);
    of_layer.local(x_);
    parts.push_back(call.local(way(round, x_, stream_.features)));
    channels += stream_.features.channels;
  }
  join(parts, channels);
}

}  // namespace memest
