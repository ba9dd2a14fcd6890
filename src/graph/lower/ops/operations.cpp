#include "graph/lower/ops/operations.hpp"

#include <utility>

namespace memest {
namespace {

Op op_of(OpKind kind, Place place) {
  Op op;
  op.kind = kind;
  op.name = place.op;
  return op;
}

/// A power of x by a number. Its backward, gradient · constant · a power of what is kept, makes
/// both factors before the product.
TensorId power_keeping(BlockBuilder& block, Place place, Keeps keeps, TensorId x) {
  const DType dtype = block.dtype_of(x);
  const TensorId out = block.make(place, block.tensor(x).shape, dtype);
  Op op = op_of(OpKind::power, place);
  op.inputs = {x};
  op.outputs = {out};
  // derivatives.yaml: pow.Tensor_Scalar hands pow_backward its input; rsqrt is -0.5 · grad ·
  // result.pow(3), so that the input may go.
  op.saved = {keeps == Keeps::input ? x : out};
  BackwardWriter backward(op);
  const auto kept_power = backward.make(x, dtype);
  const auto scaled = backward.make(x, dtype);
  const auto gradient = backward.make(x, dtype);
  backward.drop(scaled);
  backward.drop(kept_power);
  backward.give(x, gradient);
  block.emit(std::move(op));
  return out;
}

}  // namespace

DType promoted(DType left, DType right) {
  // torch.promote_types: bf16 beside fp16, or either beside fp32, is fp32.
  if (left == right) return left;
  return DType::fp32;
}

TensorId scratch(BlockBuilder& block, Place place, Shape shape, DType dtype) {
  return block.make(place, std::move(shape), dtype, Role::workspace);
}

KernelLaunch sum_between(const Shape& whole, const Shape& part, DType dtype) {
  KernelLaunch kernel;
  kernel.dtype = dtype;
  const std::size_t missing = whole.size() - part.size();
  bool summed = false;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const bool sums = i < missing || whole[i] != part[i - missing];
    summed = summed || sums;
    (sums ? kernel.reduced : summed ? kernel.inner : kernel.outer) *= whole[i];
  }
  return kernel;
}

void give_settled(BlockBuilder& block, BackwardWriter& backward, TensorId input,
                  BackwardWriter::Made made) {
  // engine.cpp: validate_outputs: a gradient wider than its input is first summed (reduce_grad),
  // then cast to the input's type; both run outside of the node that made it.
  const TensorId output = backward.output();
  auto settled = made;
  Reach reach = Reach::directly;
  backward.leave_node();
  const auto replace = [&](DType dtype, const KernelLaunch* sum) {
    const auto next = backward.make(input, dtype);
    if (sum != nullptr) backward.launch(*sum);
    backward.drop(settled);
    settled = next;
  };
  const Shape& shape = block.tensor(input).shape;
  if (shape != block.tensor(output).shape) {
    const KernelLaunch sum = sum_between(block.tensor(output).shape, shape, block.dtype_of(output));
    replace(block.dtype_of(output), &sum);
    // sum_to (ExpandUtils.h) keeps the summed dimensions, and sees them away behind.
    if (shape.size() < block.tensor(output).shape.size()) reach = Reach::through_view;
  }
  if (block.dtype_of(input) != block.dtype_of(output)) {
    replace(block.dtype_of(input), nullptr);
    reach = Reach::directly;
  }
  backward.give(input, settled, reach);
}

TensorId cast(BlockBuilder& block, Place place, TensorId x, DType dtype) {
  if (block.dtype_of(x) == dtype) return x;
  const TensorId out = block.make(place, block.tensor(x).shape, dtype);
  Op op = op_of(OpKind::cast, place);
  op.inputs = {x};
  op.outputs = {out};
  BackwardWriter backward(op);
  // ToCopyBackward0 keeps the options of the input, no tensor: _to_copy_backward casts the
  // gradient.
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  return out;
}

TensorId to_compute(BlockBuilder& block, std::string_view op, TensorId x) {
  if (!block.precision().autocast) return x;
  return cast(block, {op, "cast input"}, x, block.precision().compute);
}

TensorId function(BlockBuilder& block, Place place, Keeps keeps, TensorId x) {
  const TensorId out = block.make(place, block.tensor(x).shape, block.dtype_of(x));
  Op op = op_of(keeps == Keeps::nothing ? OpKind::scale : OpKind::activation, place);
  op.inputs = {x};
  op.outputs = {out};
  // derivatives.yaml: gelu_backward and silu_backward take self; threshold_backward (relu),
  // sigmoid_backward and tanh_backward take result. A product with a number keeps neither.
  if (keeps == Keeps::input) op.saved = {x};
  if (keeps == Keeps::result) op.saved = {out};
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  return out;
}

TensorId scale(BlockBuilder& block, Place place, TensorId x) {
  return function(block, place, Keeps::nothing, x);
}

TensorId add(BlockBuilder& block, Place place, TensorId left, TensorId right) {
  const DType dtype = promoted(block.dtype_of(left), block.dtype_of(right));
  const TensorId out = block.make(place, block.tensor(left).shape, dtype);
  Op op = op_of(OpKind::add, place);
  op.inputs = {left, right};
  op.outputs = {out};
  // derivatives.yaml: add.Tensor: both inputs get grad itself; a sum over broadcast dimensions or a
  // cast is validate_outputs' own.
  BackwardWriter backward(op);
  for (const TensorId id : {left, right}) {
    if (!block.needs_gradient(id)) continue;
    const bool sums = block.tensor(id).shape != block.tensor(out).shape;
    const bool casts = block.dtype_of(id) != dtype;
    if (!sums && !casts) {
      backward.hand_on(id);
      continue;
    }
    backward.leave_node();
    auto made = backward.make(id, sums ? dtype : block.dtype_of(id));
    if (sums) backward.launch(sum_between(block.tensor(out).shape, block.tensor(id).shape, dtype));
    if (sums && casts) {
      const auto narrow = backward.make(id, block.dtype_of(id));
      backward.drop(made);
      made = narrow;
    }
    backward.give(id, made);
  }
  block.emit(std::move(op));
  return out;
}

TensorId subtract(BlockBuilder& block, Place place, TensorId left, TensorId right) {
  const DType dtype = promoted(block.dtype_of(left), block.dtype_of(right));
  const TensorId out = block.make(place, block.tensor(left).shape, dtype);
  Op op = op_of(OpKind::add, place);
  op.inputs = {left, right};
  op.outputs = {out};
  BackwardWriter backward(op);
  // derivatives.yaml: sub.Tensor: self gets grad itself, other maybe_multiply(-grad, alpha).
  const auto negated = backward.make(out, block.dtype_of(out));
  backward.hand_on(left);
  give_settled(block, backward, right, negated);
  block.emit(std::move(op));
  return out;
}

namespace {

/// `out` is x and a number.
TensorId sum_with_number(BlockBuilder& block, Place place, TensorId x, TensorId out) {
  Op op = op_of(OpKind::add, place);
  op.inputs = {x};
  op.outputs = {out};
  BackwardWriter(op).hand_on(x);
  block.emit(std::move(op));
  return out;
}

}  // namespace

TensorId add_number(BlockBuilder& block, Place place, TensorId x) {
  const TensorId out = block.make(place, block.tensor(x).shape, block.dtype_of(x));
  return sum_with_number(block, place, x, out);
}

TensorId add_number_in_place(BlockBuilder& block, Place place, TensorId x) {
  return sum_with_number(block, place, x, block.alias(place, x, block.tensor(x).shape));
}

TensorId multiply(BlockBuilder& block, Place place, TensorId left, TensorId right) {
  const DType dtype = promoted(block.dtype_of(left), block.dtype_of(right));
  const Shape& left_shape = block.tensor(left).shape;
  const bool right_is_wider =
      left_shape != block.tensor(right).shape &&
      (left_shape.size() < block.tensor(right).shape.size() || left_shape.back() == Expr(1));
  const TensorId out = block.make(place, block.tensor(right_is_wider ? right : left).shape, dtype);
  Op op = op_of(OpKind::multiply, place);
  op.inputs = {left, right};
  op.outputs = {out};
  BackwardWriter backward(op);
  // MulBackward0 saves self only where other wants a gradient and the other way round: times a
  // frozen gain, or a buffer, only that is kept.
  // The right operand's gradient is computed first; both are settled after, the left one first.
  BackwardWriter::Made of_right = 0;
  BackwardWriter::Made of_left = 0;
  if (block.needs_gradient(right)) {
    op.saved.push_back(left);
    of_right = backward.make(out, dtype);
  }
  if (block.needs_gradient(left)) {
    op.saved.push_back(right);
    of_left = backward.make(out, dtype);
    give_settled(block, backward, left, of_left);
  }
  if (block.needs_gradient(right)) give_settled(block, backward, right, of_right);
  block.emit(std::move(op));
  // Each operand's gradient is a kernel of its own, which reads the output's.
  if (block.needs_gradient(left) && block.needs_gradient(right)) {
    block.ops().back().backward.bytes += block.tensor(out).bytes();
  }
  return out;
}

TensorId power(BlockBuilder& block, Place place, TensorId x) {
  return power_keeping(block, place, Keeps::input, x);
}

TensorId reciprocal_root(BlockBuilder& block, Place place, TensorId x) {
  return power_keeping(block, place, Keeps::result, x);
}

TensorId mean_of_rows(BlockBuilder& block, Place place, TensorId x) {
  Shape shape = block.tensor(x).shape;
  shape.back() = Expr(1);
  const TensorId out = block.make(place, std::move(shape), block.dtype_of(x));
  Op op = op_of(OpKind::reduce, place);
  op.inputs = {x};
  op.outputs = {out};
  // mean_backward expands the rows' gradients and divides: one tensor as large as x.
  op.forward_launches = {
      sum_between(block.tensor(x).shape, block.tensor(out).shape, block.dtype_of(x))};
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  return out;
}

TensorId sum_of_all(BlockBuilder& block, Place place, TensorId x) {
  const TensorId out = block.make(place, {Expr(1)}, block.dtype_of(x));
  Op op = op_of(OpKind::reduce, place);
  op.inputs = {x};
  op.outputs = {out};
  KernelLaunch kernel;
  kernel.reduced = block.tensor(x).elements();
  kernel.dtype = block.dtype_of(x);
  op.forward_launches = {std::move(kernel)};
  // SumBackward0 sees one number as the whole.
  BackwardWriter(op).hand_on(x, Reach::through_view);
  block.emit(std::move(op));
  return out;
}

TensorId copy(BlockBuilder& block, Place place, TensorId x, Shape shape) {
  const TensorId out = block.make(place, std::move(shape), block.dtype_of(x));
  Op op = op_of(OpKind::copy, place);
  op.inputs = {x};
  op.outputs = {out};
  // CloneBackward0: self: grad.
  BackwardWriter(op).hand_on(x, Reach::through_view);
  block.emit(std::move(op));
  return out;
}

TensorId repeated_copy(BlockBuilder& block, std::string_view name, TensorId x,
                       const Repeats& repeats) {
  const TensorId out = block.make({name}, repeats.shape, block.dtype_of(x));
  Op op = op_of(OpKind::copy, {name});
  op.inputs = {x};
  op.outputs = {out};
  KernelLaunch sum;
  sum.outer = repeats.outer;
  sum.reduced = repeats.times;
  sum.inner = repeats.inner;
  sum.dtype = block.dtype_of(x);
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  backward.launch(std::move(sum));
  block.emit(std::move(op));
  return out;
}

TensorId compute(BlockBuilder& block, OpKind kind, const std::vector<TensorId>& inputs,
                 const Made& made) {
  const TensorId out = block.make(made.place, made.shape, made.dtype);
  Op op = op_of(kind, made.place);
  op.inputs = inputs;
  op.outputs = {out};
  block.emit(std::move(op));
  return out;
}

TensorId softcap(BlockBuilder& block, std::string_view name, TensorId x) {
  // Gemma 2: scores / softcap, tanh, times softcap: three tensors, of which tanh's result is kept.
  const TensorId inner = scale(block, {name, "quotient"}, x);
  const TensorId bounded = function(block, {name, "tanh"}, Keeps::result, inner);
  return scale(block, {name}, bounded);
}

TensorId dropout(BlockBuilder& block, std::string_view name, double probability, TensorId x) {
  if (probability <= 0) return x;
  const Shape shape = block.tensor(x).shape;
  // native_dropout makes the result and its mask of one byte an element, which
  // NativeDropoutBackward0 keeps. [1, 4096, 4096]: 16 MiB.
  const TensorId mask = block.make({name, "mask"}, shape, DType::boolean);
  const TensorId out = block.make({name}, shape, block.dtype_of(x));
  Op op = op_of(OpKind::dropout, {name});
  op.inputs = {x};
  op.outputs = {mask, out};
  op.saved = {mask};
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  return out;
}

}  // namespace memest
