#include "time/laws/stream_calls.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "memest/diag/expect.hpp"
#include "memest/spec/framework.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

std::int64_t elements_of(const Tensor& tensor, const Bindings& sizes) {
  return narrow_to_int64(tensor.elements().evaluate(sizes));
}

/// The kernel that an operation other than a contraction runs.
StreamOp stream_op_of(OpKind kind) {
  switch (kind) {
    case OpKind::softmax:
      return StreamOp::softmax;
    case OpKind::layernorm:
    case OpKind::reduce:
      return StreamOp::layernorm;
    case OpKind::batchnorm:
      return StreamOp::layernorm;
    case OpKind::rmsnorm:
      return StreamOp::rmsnorm;
    case OpKind::cross_entropy:
    case OpKind::mean_square:
      return StreamOp::cross_entropy;
    case OpKind::activation:
    case OpKind::power:
      return StreamOp::gelu;
    case OpKind::dropout:
      return StreamOp::dropout;
    case OpKind::add:
    case OpKind::multiply:
    case OpKind::mask:
      return StreamOp::add;
    case OpKind::scale:
      return StreamOp::scale;
    case OpKind::cast:
      return StreamOp::cast;
    case OpKind::rotary:
      return StreamOp::rotary;
    case OpKind::embedding:
      return StreamOp::embedding;
    case OpKind::linear:
    case OpKind::batched_matmul:
    case OpKind::attention:  // of one query
    case OpKind::convolution:
    case OpKind::copy:
    case OpKind::concatenate:
    case OpKind::pooling:
    case OpKind::view:
    case OpKind::exchange:  // a pass without messages
      return StreamOp::copy;
  }
  unreachable("every operation has a kernel");
}

bool widens(const Block& block, const std::vector<TensorId>& from,
            const std::vector<TensorId>& to) {
  return !from.empty() && !to.empty() &&
         size_of(block.tensors[from.front()].dtype) < size_of(block.tensors[to.front()].dtype);
}

/// Whether an element-wise kernel of PyTorch's finds each element's place or value by itself, and
/// moves no whole vectors: rows times a weight, heads times a table of cosines, and what is read in
/// a narrower type than it is written in (CUDALoops.cuh: `elementwise_kernel` and
/// `unrolled_elementwise_kernel` in place of `vectorized_elementwise_kernel`).
bool goes_by_element(const Op& op, const Block& block, const Bindings& sizes) {
  if (op.outputs.empty() || op.inputs.empty()) return false;
  const Tensor& result = block.tensors[op.outputs.front()];
  if (op.kind == OpKind::cast) return widens(block, op.inputs, op.outputs);
  if (op.kind != OpKind::multiply && op.kind != OpKind::add) return false;
  const std::int64_t elements = elements_of(result, sizes);
  return std::ranges::any_of(
      op.inputs, [&](TensorId id) { return elements_of(block.tensors[id], sizes) < elements; });
}

/// The backward of a product that broadcasts: the wide operand's gradient is such a product as
/// well. The other's is one of whole vectors, and a sum over what was broadcast.
std::vector<KernelShape> backward_of_broadcast(const OpWork& work, const Block& block,
                                               const Bindings& sizes) {
  const Op& op = *work.op;
  const Tensor& result = block.tensors[op.outputs.front()];
  const std::int64_t elements = elements_of(result, sizes);
  const auto is_wide = [&](TensorId id) {
    return elements_of(block.tensors[id], sizes) == elements;
  };
  std::vector<KernelShape> calls;
  double left = work.backward.bytes;
  const auto add_call = [&](StreamOp kind, double bytes) {
    StreamShape shape{.op = kind, .dtype = result.dtype};
    shape.bytes = std::llround(std::min(bytes, left));
    left -= static_cast<double>(shape.bytes);
    if (shape.bytes > 0) calls.emplace_back(shape);
  };
  const double whole = result.bytes().bytes(sizes).as_double();
  const bool to_wide = std::ranges::any_of(
      op.gradients, [&](const InputGradient& gradient) { return is_wide(gradient.input); });
  const bool to_narrow = std::ranges::any_of(
      op.gradients, [&](const InputGradient& gradient) { return !is_wide(gradient.input); });
  constexpr double kReadAndWritten = 2;
  constexpr double kFactorsAndProduct = 3;
  if (to_wide) add_call(StreamOp::by_element, to_narrow ? kReadAndWritten * whole : left);
  if (to_narrow) add_call(StreamOp::add, kFactorsAndProduct * whole);
  add_call(StreamOp::layernorm, left);
  return calls;
}

/// Whether a loss reads a value a row: its backward fills zeros, and writes a value a row.
bool fills_zeros(const OpWork& work, const Block& block, const Bindings& sizes) {
  if (work.op->kind != OpKind::cross_entropy) return false;
  const Expr rows = block.tensors[work.op->inputs.front()].bytes();
  return work.forward.bytes < rows.bytes(sizes).as_double();
}

/// Where no compiler and no library of fused kernels writes them.
bool runs_eagerly(const Implementation& implementation) {
  return implementation.compile == CompileScope::off &&
         !row_of(implementation.framework).fills_steps;
}

}  // namespace

void add_stream(std::vector<KernelShape>& calls, StreamShape shape, double bytes) {
  if (bytes == 0) return;
  shape.bytes = std::llround(bytes);
  calls = {shape};
}

void add_streams(OpWork& work, const Block& block, const Bindings& sizes,
                 const Implementation& implementation) {
  const Op& op = *work.op;
  const bool eager = runs_eagerly(implementation);
  StreamShape shape{.op = stream_op_of(op.kind)};
  if (!op.outputs.empty()) shape.dtype = block.tensors[op.outputs.front()].dtype;
  StreamShape back = shape;
  back.pass = KernelPass::backward;
  if (eager && goes_by_element(op, block, sizes)) shape.op = StreamOp::by_element;
  add_stream(work.forward_calls, shape, work.forward.bytes);
  if (shape.op == StreamOp::by_element && op.kind == OpKind::multiply) {
    work.backward_calls = backward_of_broadcast(work, block, sizes);
    return;
  }
  if (fills_zeros(work, block, sizes)) back = {.op = StreamOp::copy, .dtype = shape.dtype};
  // A cast that narrows on the way there widens on the way back.
  if (eager && op.kind == OpKind::cast && widens(block, op.outputs, op.inputs)) {
    back = {.op = StreamOp::by_element, .dtype = block.tensors[op.inputs.front()].dtype};
  }
  add_stream(work.backward_calls, back, work.backward.bytes);
}

}  // namespace memest
