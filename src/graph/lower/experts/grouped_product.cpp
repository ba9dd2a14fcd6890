#include <optional>
#include <utility>

#include "graph/lower/experts/mixture.hpp"

namespace memest {
namespace {

KernelLaunch launch_of(const ProductByExpert& part, DType dtype, const Expr& rows,
                       const Expr& columns) {
  KernelLaunch launch;
  launch.kind = KernelLaunch::Kind::grouped_product;
  launch.reduced = part.experts;
  launch.outer = rows;
  launch.inner = columns;
  launch.dtype = dtype;
  return launch;
}

}  // namespace

TensorId grouped_product(BlockBuilder& block, const ProductByExpert& part) {
  const Expr& experts = part.experts;
  const TensorId weight = part.weight;
  const DType dtype = block.dtype_of(weight);
  const Shape sides = block.tensor(weight).shape;
  const Expr& out_side = sides[1];
  const Expr& in_side = sides[2];
  const Expr each = part.rows / experts;
  const Shape shape = part.even ? Shape{experts, each, out_side} : Shape{part.rows, out_side};
  const TensorId out = block.make({part.name, "product"}, shape, dtype);
  Op op;
  op.kind = OpKind::batched_matmul;
  op.name = part.name;
  op.compute = dtype;
  op.inputs = {part.x, weight, part.ends};
  op.outputs = {out};
  op.saved = {part.ends};
  if (block.needs_gradient(weight)) op.saved.push_back(part.x);
  if (block.needs_gradient(part.x)) op.saved.push_back(weight);
  op.forward_launches = {launch_of(part, dtype, each, out_side)};
  BackwardWriter backward(op);
  std::int64_t products = 0;
  const auto product_like = [&](TensorId operand, const Expr& rows, const Expr& columns) {
    const auto made = backward.make(operand, dtype);
    backward.launch(launch_of(part, dtype, rows, columns));
    ++products;
    return made;
  };
  // The weights' gradient comes first, and goes last.
  std::optional<BackwardWriter::Made> of_weight;
  if (block.needs_gradient(weight)) of_weight = product_like(weight, out_side, in_side);
  if (block.needs_gradient(part.x)) backward.give(part.x, product_like(part.x, each, in_side));
  if (of_weight) backward.give(weight, *of_weight, Reach::through_view);
  const Expr flops = Expr(2) * part.rows * in_side * out_side;
  block.emit(std::move(op), {flops, Expr(products) * flops});
  return out;
}

}  // namespace memest
