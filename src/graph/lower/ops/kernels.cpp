// Operations of one kernel that decoders and lists of layers share: norms, softmax, look-ups.
#include <optional>
#include <utility>
#include <vector>

#include "graph/lower/ops/operations.hpp"
#include "memest/graph/kernel_scratch.hpp"

namespace memest {
namespace {

/// Gradients of x, gain and bias, with the sums of the fused kernel.
void write_norm_backward(BlockBuilder& block, const NormKernelPart& part, TensorId x, Op& op) {
  BackwardWriter backward(op);
  BackwardWriter::Made lying = 0;
  if (part.transposed) lying = backward.make(x, block.dtype_of(x));
  if (block.needs_gradient(x)) backward.give(x, backward.make(x, block.dtype_of(x)));
  const auto first = static_cast<BackwardWriter::Made>(op.backward_tensors.size());
  for (const std::optional<TensorId>& parameter : {part.gain, part.bias}) {
    if (!parameter || !block.needs_gradient(*parameter)) continue;
    backward.give(*parameter, backward.make(*parameter, block.dtype_of(*parameter)));
  }
  if (part.gain && block.needs_gradient(*part.gain) && part.keeps_statistics) {
    const Tensor& rows = block.tensor(x);
    KernelLaunch sums;
    sums.kind = KernelLaunch::Kind::norm_backward;
    sums.outer = rows.elements() / rows.shape.back();
    sums.reduced = rows.shape.back();
    sums.dtype = block.dtype_of(*part.gain);
    sums.has_bias = part.bias && block.needs_gradient(*part.bias);
    sums.result = first;
    backward.launch(std::move(sums));
  }
  if (part.transposed) backward.drop(lying);
}

}  // namespace

TensorId normalize(BlockBuilder& block, const NormKernelPart& part, TensorId x) {
  const Shape shape = block.tensor(x).shape;
  const DType dtype = block.dtype_of(x);
  Shape rows = shape;
  rows.back() = Expr(1);
  Op op;
  op.kind = part.rms ? OpKind::rmsnorm : OpKind::layernorm;
  op.name = part.name;
  op.inputs = {x};
  // NativeLayerNormBackward0 keeps input, weight, bias, mean and rstd; FusedRmsNormBackward0 input,
  // weight and rstd. Statistics are fp32 for 16-bit rows: 4096 rows have 16 KiB of each.
  op.saved = {x};
  if (part.transposed) {
    op.forward_scratch = {scratch(block, {part.name, "contiguous"}, shape, dtype)};
  }
  const TensorId out = block.make({part.name, "out"}, shape, dtype);
  op.outputs = {out};
  const auto keep_row = [&](std::string_view name) {
    op.outputs.push_back(block.make({part.name, name}, rows, DType::fp32));
    op.saved.push_back(op.outputs.back());
  };
  if (part.keeps_statistics) {
    if (!part.rms) keep_row("mean");
    keep_row("reciprocal deviation");
  }
  for (const std::optional<TensorId>& parameter : {part.gain, part.bias}) {
    if (!parameter) continue;
    op.inputs.push_back(*parameter);
    op.saved.push_back(*parameter);
  }
  write_norm_backward(block, part, x, op);
  block.emit(std::move(op));
  return out;
}

TensorId softmax(BlockBuilder& block, std::string_view name, TensorId x, DType dtype) {
  const Shape shape = block.tensor(x).shape;
  const DType given = block.dtype_of(x);
  // aten/src/ATen/native/SoftMax.cpp: softmax: half_to_float where fp16 becomes fp32 on a GPU, else
  // input.toType(dtype), which makes a tensor of its own.
  // The kernel itself widens fp16 alone.
  if (given != dtype && given != DType::fp16) x = cast(block, {name, "scores in fp32"}, x, dtype);
  const TensorId out = block.make({name}, shape, dtype);
  Op op;
  op.kind = OpKind::softmax;
  op.name = name;
  op.inputs = {x};
  op.outputs = {out};
  // SoftmaxBackward0 keeps result; softmax_backward_cuda makes grad · output before its kernel.
  op.saved = {out};
  BackwardWriter backward(op);
  const auto gradient = backward.make(x, block.dtype_of(x));
  backward.drop(backward.make(out, dtype));
  backward.give(x, gradient);
  block.emit(std::move(op));
  return out;
}

/// For more than 3072 indices, with sums of partial rows (PyTorch, EmbeddingBackwardKernel.cu).
void write_table_gradient(BlockBuilder& block, const LookUp& part, TensorId gradient, Op& op) {
  BackwardWriter backward(op);
  const DType dtype = block.dtype_of(part.table);
  std::vector<BackwardWriter::Made> copies;
  if (part.indices_repeat) copies.push_back(backward.make(part.indices, DType::int64));
  if (part.gradient_is_transposed) copies.push_back(backward.make(op.outputs.front(), dtype));
  const auto drop_copies = [&] {
    for (; !copies.empty(); copies.pop_back()) backward.drop(copies.back());
  };
  // embedding_dense_backward_cuda: up to 3072 indices one kernel adds rows in place
  // (embedding_backward_feature_kernel), beyond them they are sorted.
  if (part.count <= kUnsortedTokens) {
    backward.give(part.table, backward.make(gradient, dtype));
    drop_copies();
    return;
  }
  const Shape& table = block.tensor(gradient).shape;
  KernelLaunch sort;
  sort.kind = KernelLaunch::Kind::embedding_backward;
  sort.outer = block.tensor(part.indices).elements();
  sort.reduced = table.front();
  sort.inner = table.back();
  sort.dtype = dtype;
  // Indices four times, and partial rows of ten indices and of every distinct one in fp32.
  const Expr distinct = part.count < part.table_rows ? sort.outer : sort.reduced;
  sort.scratch_bytes = Expr(4 * size_of(DType::int64)) * sort.outer +
                       Expr(size_of(DType::fp32)) * (sort.outer / Expr(10) + distinct) * sort.inner;
  backward.give(part.table, backward.launch_making(gradient, std::move(sort)));
  drop_copies();
}

TensorId look_up(BlockBuilder& block, std::string_view name, const LookUp& part) {
  Shape shape = block.tensor(part.indices).shape;
  shape.push_back(block.tensor(part.table).shape.back());
  const TensorId out = block.make({name}, std::move(shape), block.dtype_of(part.table));
  Op op;
  op.kind = OpKind::embedding;
  op.name = name;
  if (part.indices_repeat) {
    op.forward_scratch = {
        scratch(block, {name, "indices"}, block.tensor(part.indices).shape, DType::int64)};
  }
  op.inputs = {part.indices, part.table};
  op.outputs = {out};
  // EmbeddingBackward0 keeps the indices, and of the weight only how many rows it has.
  op.saved = {part.indices};
  write_table_gradient(block, part, part.table, op);
  block.emit(std::move(op));
  return out;
}

TensorId log_softmax(BlockBuilder& block, std::string_view name, TensorId scores) {
  const TensorId out = block.make({name}, block.tensor(scores).shape, block.dtype_of(scores));
  Op op;
  op.kind = OpKind::softmax;
  op.name = name;
  op.inputs = {scores};
  op.outputs = {out};
  // LogSoftmaxBackward0: _log_softmax_backward_data(grad, result). 4096 tokens of 128 256 in fp32:
  // 1.96 GiB.
  op.saved = {out};
  BackwardWriter backward(op);
  backward.give(scores, backward.make(scores, block.dtype_of(scores)));
  block.emit(std::move(op));
  return out;
}

namespace {

/// A number for each row, or their mean.
TensorId likelihood(BlockBuilder& block, TensorId log_probabilities, TensorId targets,
                    bool by_rows) {
  const DType dtype = block.dtype_of(log_probabilities);
  Shape rows = block.tensor(log_probabilities).shape;
  rows.pop_back();
  const TensorId loss = block.make({"nll_loss"}, by_rows ? rows : Shape{Expr(1)}, dtype);
  const TensorId weight = block.make({"nll_loss", "total weight"}, {Expr(1)}, dtype);
  // NLLLoss2d.cu, nll_loss2d_forward_template fills the loss that nll_loss2d_forward_cuda has made
  // empty: the weight has its memory first.
  const bool of_images = block.tensor(log_probabilities).shape.size() == 4;
  Op op;
  op.kind = OpKind::cross_entropy;
  op.name = "nll_loss";
  op.inputs = {log_probabilities, targets};
  op.outputs = {loss, weight};
  if (of_images) std::swap(op.outputs.front(), op.outputs.back());
  // NllLossBackward0: nll_loss_backward fills zeros as large as the log-probabilities.
  op.saved = {log_probabilities, targets, weight};
  BackwardWriter backward(op);
  const auto gradient = backward.make(log_probabilities, dtype);
  // nll_loss_backward_out_cuda_template: grad_output.contiguous() of one number seen as many.
  if (by_rows) backward.drop(backward.make(loss, dtype));
  backward.give(log_probabilities, gradient);
  block.emit(std::move(op));
  // Forward reads a value a row (NLLLoss.cu, nll_loss_forward_reduce_cuda_kernel_2d), backward
  // fills zeros (at::zeros) and writes one a row: 25 GB for 16,384 tokens of 128,256 are 8.4 GB.
  Op& emitted = block.ops().back();
  emitted.forward.bytes = block.tensor(targets).bytes();
  if (!emitted.backward.bytes.is_zero()) {
    emitted.backward.bytes =
        block.tensor(log_probabilities).bytes() + block.tensor(targets).bytes();
  }
  return loss;
}

}  // namespace

TensorId negative_likelihood(BlockBuilder& block, TensorId log_probabilities, TensorId targets) {
  return likelihood(block, log_probabilities, targets, false);
}

TensorId negative_likelihoods(BlockBuilder& block, TensorId log_probabilities, TensorId targets) {
  return likelihood(block, log_probabilities, targets, true);
}

}  // namespace memest
