#include "graph/lower/ops/indexing.hpp"

#include <string_view>
#include <utility>

namespace memest {

TensorId made(BlockBuilder& block, const Made& result, const std::vector<TensorId>& inputs) {
  const TensorId out = compute(block, OpKind::copy, inputs, result);
  block.set_needs_gradient(out, false);
  return out;
}

Pair pair_of(BlockBuilder& block, const Made& first, const Made& second, TensorId x) {
  const Pair pair = {block.make(first.place, first.shape, first.dtype),
                     block.make(second.place, second.shape, second.dtype)};
  Op op;
  op.kind = OpKind::reduce;
  op.name = first.place.op;
  op.inputs = {x};
  op.outputs = {pair.first, pair.second};
  block.emit(std::move(op));
  for (const TensorId id : {pair.first, pair.second}) block.set_needs_gradient(id, false);
  return pair;
}

Pair taken_of(BlockBuilder& block, const Made& values, const Made& places, TensorId x) {
  const Pair taken = {block.make(values.place, values.shape, values.dtype),
                      block.make(places.place, places.shape, places.dtype)};
  Op op;
  op.kind = OpKind::reduce;
  op.name = values.place.op;
  op.inputs = {x};
  op.outputs = {taken.first, taken.second};
  // TopkBackward0 keeps the indices: value_selecting_reduction_backward scatters into zeros.
  op.saved = {taken.second};
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  block.set_needs_gradient(taken.second, false);
  return taken;
}

KernelLaunch search_of_flags(const BlockBuilder& block, KernelLaunch::Kind kind, TensorId flags) {
  KernelLaunch launch;
  launch.kind = kind;
  launch.reduced = block.tensor(flags).elements();
  launch.dtype = DType::boolean;
  return launch;
}

// aten/src/ATen/native/cuda/Nonzero.cu, nonzero_cuda_out_impl: num_nonzeros is an int on the
// device.
TensorId places_of_flags(BlockBuilder& block, Place place, TensorId flags, const Expr& count) {
  const TensorId out = block.make(place, {count}, DType::int64);
  Op op;
  op.kind = OpKind::copy;
  op.name = place.op;
  op.inputs = {flags};
  op.outputs = {out};
  op.forward_scratch = {scratch(block, {place.op, "number"}, {Expr(1)}, DType::int32)};
  op.forward_launches = {search_of_flags(block, KernelLaunch::Kind::count_flags, flags),
                         search_of_flags(block, KernelLaunch::Kind::select_flags, flags)};
  op.forward_steps = {{StepKind::allocate, 0},
                      {StepKind::launch, 0},
                      {StepKind::allocate, 1},
                      {StepKind::launch, 1},
                      {StepKind::free, 0}};
  block.emit(std::move(op));
  block.set_needs_gradient(out, false);
  return out;
}

namespace {

Op reading_op(const Made& result, const Indexed& read, TensorId out) {
  Op op;
  op.kind = OpKind::copy;
  op.name = result.place.op;
  op.inputs = {read.x, read.indices};
  op.outputs = {out};
  op.saved = {read.indices};
  return op;
}

/// Indices of 32 bits as a kernel takes them (IndexingUtils.h, expandTensors).
TensorId widened(BlockBuilder& block, std::string_view op, TensorId indices) {
  return scratch(block, {op, "indices in int64"}, block.tensor(indices).shape, DType::int64);
}

}  // namespace

TensorId moved(BlockBuilder& block, const Made& result, const Indexed& read) {
  const TensorId x = read.x;
  const TensorId out = block.make(result.place, result.shape, result.dtype);
  // derivatives.yaml: gather_backward(grad, self, dim, index) reads self only for its sizes, yet it
  // is saved; index_select keeps sizes alone.
  Op op = reading_op(result, read, out);
  if (read.by == Indexing::gather) op.saved.push_back(x);
  BackwardWriter backward(op);
  const bool seen = block.tensor(x).shape.size() > result.shape.size();
  const Reach reach = seen ? Reach::through_view : Reach::directly;
  backward.give(x, backward.make(x, block.dtype_of(x)), reach);
  block.emit(std::move(op));
  return out;
}

TensorId rows_at(BlockBuilder& block, const Made& result, const RowsAt& sizes,
                 const Indexed& read) {
  const TensorId out = block.make(result.place, result.shape, result.dtype);
  Op op = reading_op(result, read, out);
  if (sizes.narrow) op.forward_scratch = {widened(block, result.place.op, read.indices)};
  KernelLaunch sum;
  sum.kind = KernelLaunch::Kind::index_sum;
  sum.dtype = block.dtype_of(read.indices);
  sum.outer = sizes.count;
  sum.reduced = sizes.rows;
  // aten/src/ATen/native/cuda/Indexing.cu: index_put_with_sort_kernel.
  // Indices, sorted ones, their order and numbers, and as much again to sort both.
  sum.scratch_bytes = Expr(6 * size_of(DType::int64)) * sizes.count;
  BackwardWriter backward(op);
  backward.give(read.x, backward.make(read.x, block.dtype_of(read.x)));
  backward.launch(std::move(sum));
  block.emit(std::move(op));
  return out;
}

TensorId put_rows(BlockBuilder& block, const PutRows& part) {
  const TensorId x = part.rows.x;
  const TensorId indices = part.rows.indices;
  const TensorId out = block.alias(part.place, part.into, block.tensor(part.into).shape);
  Op op;
  op.kind = OpKind::copy;
  op.name = part.place.op;
  op.inputs = {part.into, x, indices};
  op.outputs = {out};
  op.saved = {indices};
  BackwardWriter backward(op);
  if (part.narrow) {
    op.forward_scratch = {widened(block, part.place.op, indices)};
    const auto wide = backward.make(indices, DType::int64);
    const auto gradient = backward.make(x, block.dtype_of(x));
    backward.drop(wide);
    backward.give(x, gradient);
  } else {
    backward.give(x, backward.make(x, block.dtype_of(x)));
  }
  block.emit(std::move(op));
  return out;
}

}  // namespace memest
