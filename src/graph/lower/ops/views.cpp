// Operations without arithmetic: other shapes, parts and joints of tensors.
#include <utility>

#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

Op view_op(std::string_view name, TensorId x, std::vector<TensorId> outputs) {
  Op op;
  op.kind = OpKind::view;
  op.name = name;
  op.inputs = {x};
  op.outputs = std::move(outputs);
  return op;
}

}  // namespace

TensorId view(BlockBuilder& block, Place place, TensorId x, Shape shape) {
  const TensorId out = block.alias(place, x, std::move(shape));
  Op op = view_op(place.op, x, {out});
  // ViewBackward0: grad.reshape(self.sizes()).
  BackwardWriter(op).hand_on(x, Reach::through_view);
  block.emit(std::move(op));
  return out;
}

TensorId same(BlockBuilder& block, Place place, TensorId x) {
  const TensorId out = block.alias(place, x, block.tensor(x).shape);
  Op op = view_op(place.op, x, {out});
  BackwardWriter(op).hand_on(x, Reach::directly);
  block.emit(std::move(op));
  return out;
}

TensorId view_copied_back(BlockBuilder& block, Place place, TensorId x, Shape shape) {
  const TensorId out = block.alias(place, x, std::move(shape));
  Op op = view_op(place.op, x, {out});
  BackwardWriter backward(op);
  // reshape of what has no such view is _unsafe_view of a clone, which no base holds.
  backward.give(x, backward.make(out, block.dtype_of(x)));
  block.emit(std::move(op));
  return out;
}

TensorId slice(BlockBuilder& block, Place place, TensorId x, Shape shape) {
  return split(block, place.op, x, {{place, std::move(shape)}}).front();
}

std::vector<TensorId> split(BlockBuilder& block, std::string_view name, TensorId x,
                            const std::vector<SplitPart>& parts) {
  std::vector<TensorId> outputs;
  outputs.reserve(parts.size());
  for (const SplitPart& part : parts) outputs.push_back(block.alias(part.place, x, part.shape));
  Op op = view_op(name, x, outputs);
  BackwardWriter backward(op);
  // SplitBackward0 joins the parts' gradients into one tensor, zeros for those without;
  // SliceBackward0 writes its part into zeros.
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  // The zeros are written whole before, and the part is written into them.
  if (outputs.size() == 1 && block.needs_gradient(x)) {
    block.ops().back().backward.bytes += block.tensor(outputs.front()).bytes();
  }
  return outputs;
}

TensorId concatenate(BlockBuilder& block, Place place, const Joint& joint, Shape shape) {
  const std::vector<TensorId>& parts = joint.parts;
  DType dtype = joint.empty.value_or(block.dtype_of(parts.front()));
  for (const TensorId part : parts) dtype = promoted(dtype, block.dtype_of(part));
  const TensorId out = block.make(place, std::move(shape), dtype);
  Op op;
  op.kind = OpKind::concatenate;
  op.name = place.op;
  op.inputs = parts;
  op.outputs = {out};
  BackwardWriter backward(op);
  for (const TensorId part : parts) {
    if (!block.needs_gradient(part)) continue;
    // CatBackward0: cat_tensors_backward narrows the gradient for each input, a view; cat had
    // promoted the others, whose part is cast back.
    if (block.dtype_of(part) == dtype) {
      backward.hand_on(part, joint.reach);
    } else {
      backward.leave_node();
      backward.give(part, backward.make(part, block.dtype_of(part)));
    }
  }
  block.emit(std::move(op));
  return out;
}

}  // namespace memest
