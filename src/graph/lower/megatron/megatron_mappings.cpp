#include "graph/lower/megatron/megatron_mappings.hpp"

#include <utility>

namespace memest {

TensorId exchanged(BlockBuilder& block, const Made& made, TensorId x, Exchange exchange) {
  const TensorId out = block.make(made.place, made.shape, made.dtype);
  const TensorId whole = exchange.forward == MessageKind::all_gather ? out : x;
  const Expr bytes = block.tensor(whole).bytes();
  Op op;
  op.kind = exchange.kind;
  op.name = made.place.op;
  op.inputs = {x};
  op.outputs = {out};
  op.forward_scratch = std::move(exchange.scratch);
  op.forward_messages = {{.kind = exchange.forward, .bytes = bytes}};
  if (exchange.backward) op.backward_messages = {{.kind = *exchange.backward, .bytes = bytes}};
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, made.dtype));
  block.emit(std::move(op));
  return out;
}

TensorId own_tokens(BlockBuilder& block, const MegatronContext& context, Place place, TensorId x) {
  const TensorId part = block.alias(place, x, context.stream());
  Op op;
  op.kind = OpKind::view;
  op.name = place.op;
  op.inputs = {x};
  op.outputs = {part};
  op.backward_messages = {{.kind = MessageKind::all_gather, .bytes = block.tensor(x).bytes()}};
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  return part;
}

}  // namespace memest
