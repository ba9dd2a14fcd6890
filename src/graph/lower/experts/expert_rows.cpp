#include "graph/lower/experts/expert_rows.hpp"

#include <utility>

namespace memest {

namespace {

/// Rows in another order or on other ranks: both passes move as much.
TensorId rows_of(BlockBuilder& block, const SentRows& sent, Op op) {
  Shape shape = block.tensor(sent.x).shape;
  shape.front() = sent.rows;
  const DType dtype = block.dtype_of(sent.x);
  const TensorId out = block.make(sent.place, std::move(shape), dtype);
  op.name = sent.place.op;
  op.inputs = {sent.x};
  op.outputs = {out};
  BackwardWriter backward(op);
  backward.give(sent.x, backward.make(sent.x, dtype));
  block.emit(std::move(op));
  return out;
}

}  // namespace

TensorId reordered_rows(BlockBuilder& block, Place place, TensorId x, const Expr& rows) {
  Op op;
  op.kind = OpKind::copy;
  return rows_of(block, {place, x, rows}, std::move(op));
}

TensorId sent_rows(BlockBuilder& block, const SentRows& sent, const Messages& messages) {
  Op op;
  op.kind = OpKind::exchange;
  op.forward_messages = {messages.forward};
  op.backward_messages = {messages.backward};
  return rows_of(block, sent, std::move(op));
}

TensorId exchanged_rows(BlockBuilder& block, Place place, TensorId x, const Expr& rows) {
  const Message message{.kind = MessageKind::all_to_all,
                        .group = RankGroup::expert,
                        .bytes = block.tensor(x).bytes()};
  return sent_rows(block, {place, x, rows}, {message, message});
}

}  // namespace memest
