#include "graph/lower/experts/expert_rows.hpp"

#include <utility>

namespace memest {

TensorId reordered_rows(BlockBuilder& block, Place place, TensorId x, const Expr& rows) {
  Shape shape = block.tensor(x).shape;
  shape.front() = rows;
  const TensorId out = block.make(place, std::move(shape), block.dtype_of(x));
  Op op;
  op.kind = OpKind::copy;
  op.name = place.op;
  op.inputs = {x};
  op.outputs = {out};
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  return out;
}

TensorId exchanged_rows(BlockBuilder& block, Place place, TensorId x, const Expr& rows) {
  const TensorId out = reordered_rows(block, place, x, rows);
  const Message message{.kind = MessageKind::all_to_all,
                        .group = RankGroup::expert,
                        .bytes = block.tensor(x).bytes()};
  block.send_forward(message);
  block.send_backward(message);
  return out;
}

}  // namespace memest
