// x[mask] and zeros.masked_scatter(mask, x): aten/src/ATen/native/cuda/Nonzero.cu and Indexing.cu.
#include <utility>

#include "graph/lower/ops/indexing.hpp"
#include "graph/lower/trl/trl.hpp"

namespace memest {
namespace {

/// The places of flags that are set, in two dimensions, and what finding them asks for.
struct FlagSearch {
  TensorId number = 0;  ///< of them
  TensorId places = 0;
  KernelLaunch count;
  KernelLaunch select;
};

FlagSearch search_of(BlockBuilder& block, std::string_view name, TensorId mask, const Expr& found) {
  return {scratch(block, {name, "number"}, {Expr(1)}, DType::int32),
          scratch(block, {name, "places"}, {Expr(2), found}, DType::int64),
          search_of_flags(block, KernelLaunch::Kind::count_flags, mask),
          search_of_flags(block, KernelLaunch::Kind::select_flags, mask)};
}

/// Answers the places, whose number is gone.
BackwardWriter::Made find_again(BackwardWriter& backward, const FlagSearch& search) {
  const auto number = backward.make(search.number, DType::int32);
  backward.launch(search.count);
  const auto places = backward.make(search.places, DType::int64);
  backward.launch(search.select);
  backward.drop(number);
  return places;
}

/// index_backward: zeros like x, to which the rows are added at their places
/// (index_put_with_sort_kernel): one index from those of both dimensions, and its order.
void write_backward(BlockBuilder& block, const SelectedRows& part, const FlagSearch& search,
                    Op& op) {
  const Expr found = part.shape.front();
  const TensorId index = scratch(block, {part.name, "index"}, {found}, DType::int64);
  BackwardWriter backward(op);
  const auto zeros = backward.make(part.x, block.dtype_of(part.x));
  const auto places = find_again(backward, search);
  const auto wrapped = backward.make(index, DType::int64);
  const auto linear = backward.make(index, DType::int64);
  backward.drop(wrapped);
  const auto wrapped_second = backward.make(index, DType::int64);
  const auto second = backward.make(index, DType::int64);
  backward.drop(wrapped_second);
  backward.drop(second);
  backward.drop(places);
  KernelLaunch order;
  order.kind = KernelLaunch::Kind::index_order;
  order.outer = found;
  order.reduced = block.tensor(part.mask).elements();
  // Sorted indices, their order and numbers, and as much again to sort both.
  order.scratch_bytes = Expr(5 * size_of(DType::int64)) * found;
  backward.launch(std::move(order));
  backward.drop(linear);
  backward.give(part.x, zeros);
}

}  // namespace

TensorId selected_rows(BlockBuilder& block, const SelectedRows& part) {
  const TensorId out = block.make({part.name}, part.shape, block.dtype_of(part.x));
  const FlagSearch search = search_of(block, part.name, part.mask, part.shape.front());
  Op op;
  op.kind = OpKind::copy;
  op.name = part.name;
  op.inputs = {part.x, part.mask};
  op.outputs = {out};
  op.saved = {part.mask};
  op.forward_scratch = {search.number, search.places};
  op.forward_launches = {search.count, search.select};
  op.forward_steps = {{StepKind::allocate, 0}, {StepKind::launch, 0}, {StepKind::allocate, 1},
                      {StepKind::launch, 1},   {StepKind::free, 0},   {StepKind::allocate, 2},
                      {StepKind::free, 1}};
  write_backward(block, part, search, op);
  block.emit(std::move(op));
  return out;
}

TensorId scattered(BlockBuilder& block, const Scattered& part) {
  const Shape shape = block.tensor(part.mask).shape;
  const DType dtype = block.dtype_of(part.x);
  Frame call(block);
  const TensorId zeros =
      call.local(compute(block, OpKind::copy, {}, {{part.name, "zeros"}, shape, dtype}));
  const TensorId out = block.make({part.name}, shape, dtype);
  const TensorId before = block.make({part.name, "elements before"}, shape, DType::int64);
  Op op;
  op.kind = OpKind::copy;
  op.name = part.name;
  op.inputs = {zeros, part.mask, part.x};
  op.outputs = {out, before};
  op.saved = {part.mask};
  KernelLaunch scan;
  scan.kind = KernelLaunch::Kind::scan;
  scan.reduced = block.tensor(part.mask).elements();
  scan.dtype = DType::int64;
  op.forward_launches = {std::move(scan)};
  // masked_scatter_backward: grad.masked_select(mask); the zeros are no leaf.
  BackwardWriter backward(op);
  const Expr found = block.tensor(part.x).shape.front();
  const auto places = find_again(backward, search_of(block, part.name, part.mask, found));
  const auto selected = backward.make(part.x, dtype);
  backward.drop(places);
  backward.give(part.x, selected);
  block.emit(std::move(op));
  return out;
}

}  // namespace memest
