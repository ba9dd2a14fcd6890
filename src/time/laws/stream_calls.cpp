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
      return StreamOp::copy;
  }
  unreachable("every operation has a kernel");
}

/// Whether an element-wise kernel of PyTorch's finds each element's place or value by itself, and
/// moves no whole vectors: rows times a weight, heads times a table of cosines, and what is read in
/// a narrower type than it is written in (CUDALoops.cuh: `elementwise_kernel` and
/// `unrolled_elementwise_kernel` in place of `vectorized_elementwise_kernel`).
bool goes_by_element(const Op& op, const Block& block, const Bindings& sizes) {
  if (op.outputs.empty() || op.inputs.empty()) return false;
  const Tensor& result = block.tensors[op.outputs.front()];
  const Tensor& first = block.tensors[op.inputs.front()];
  if (op.kind == OpKind::cast) return size_of(first.dtype) < size_of(result.dtype);
  if (op.kind != OpKind::multiply && op.kind != OpKind::add) return false;
  const std::int64_t elements = elements_of(result, sizes);
  return std::ranges::any_of(
      op.inputs, [&](TensorId id) { return elements_of(block.tensors[id], sizes) < elements; });
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
  StreamShape shape{.op = stream_op_of(work.op->kind)};
  if (runs_eagerly(implementation) && goes_by_element(*work.op, block, sizes)) {
    shape.op = StreamOp::by_element;
  }
  if (!work.op->outputs.empty()) shape.dtype = block.tensors[work.op->outputs.front()].dtype;
  add_stream(work.forward_calls, shape, work.forward.bytes);
  shape.pass = KernelPass::backward;
  // A cast that widens is one that narrows on the way back, which moves whole vectors.
  if (work.op->kind == OpKind::cast) shape.op = StreamOp::cast;
  add_stream(work.backward_calls, shape, work.backward.bytes);
}

}  // namespace memest
