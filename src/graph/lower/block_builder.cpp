#include "block_builder.hpp"

#include <algorithm>
#include <utility>

#include "memest/diag/expect.hpp"

namespace memest {

BlockBuilder::BlockBuilder(std::string name, const Precision& precision) : precision_(precision) {
  block_.name = std::move(name);
  constexpr std::size_t kTensorsOfALayer = 96;
  constexpr std::size_t kOpsOfALayer = 40;
  block_.tensors.reserve(kTensorsOfALayer);
  block_.ops.reserve(kOpsOfALayer);
  needs_gradient_.reserve(kTensorsOfALayer);
}

TensorId BlockBuilder::add(Tensor tensor, bool needs_gradient) {
  const TensorId id = static_cast<TensorId>(block_.tensors.size());
  block_.tensors.push_back(std::move(tensor));
  needs_gradient_.push_back(needs_gradient);
  return id;
}

TensorId BlockBuilder::block_input(Shape shape, DType dtype) {
  const TensorId id = make({"input"}, std::move(shape), dtype, Role::input);
  needs_gradient_[id] = true;
  block_.input = id;
  return id;
}

TensorId BlockBuilder::shared(std::string_view name, Shape shape, DType dtype) {
  const auto known = std::find_if(block_.tensors.begin(), block_.tensors.end(),
                                  [name](const Tensor& t) { return t.shared && t.name == name; });
  if (known != block_.tensors.end()) {
    return static_cast<TensorId>(known - block_.tensors.begin());
  }
  const TensorId id = make({"shared", name}, std::move(shape), dtype, Role::input);
  block_.tensors[id].shared = true;
  return id;
}

TensorId BlockBuilder::parameter(Place place, Shape shape) {
  const TensorId id = make(place, std::move(shape), precision_.weights, Role::parameter);
  needs_gradient_[id] = true;
  return id;
}

TensorId BlockBuilder::tied_parameter(Place place, Shape shape) {
  const TensorId id = parameter(place, std::move(shape));
  block_.tensors[id].shared = true;
  return id;
}

TensorId BlockBuilder::make(Place place, Shape shape, DType dtype) {
  return make(place, std::move(shape), dtype, Role::activation);
}

TensorId BlockBuilder::make(Place place, Shape shape, DType dtype, Role role) {
  Tensor tensor;
  tensor.op = place.op;
  tensor.name = place.name;
  tensor.shape = std::move(shape);
  tensor.dtype = dtype;
  tensor.role = role;
  tensor.storage = static_cast<TensorId>(block_.tensors.size());
  return add(std::move(tensor), false);
}

TensorId BlockBuilder::view(Place place, TensorId base, Shape shape) {
  const TensorId id =
      make(place, std::move(shape), block_.tensors[base].dtype, block_.tensors[base].role);
  block_.tensors[id].storage = block_.tensors[base].storage;
  needs_gradient_[id] = needs_gradient_[base];
  return id;
}

void BlockBuilder::emit(Op op, const Flow& flow) {
  bool trains = false;
  Expr read;
  for (const TensorId id : op.inputs) {
    read += block_.tensors[id].bytes();
    trains = trains || needs_gradient_[id];
  }
  Expr written;
  for (const TensorId id : op.outputs) {
    written += block_.tensors[id].bytes();
    needs_gradient_[id] = trains;
  }
  op.forward.flops = flow.forward;
  // A look-up reads the rows that it copies, not the table.
  if (op.kind == OpKind::embedding) read = written + block_.tensors[op.inputs.front()].bytes();
  op.forward.bytes = read + written;
  if (trains) {
    // Backward reads what was saved and the outputs' gradients, and writes the inputs' gradients.
    op.backward.flops = flow.backward;
    op.backward.bytes = written;
    for (const TensorId id : op.saved) op.backward.bytes += block_.tensors[id].bytes();
    for (const TensorId id : op.inputs) {
      if (needs_gradient_[id]) op.backward.bytes += block_.tensors[id].bytes();
    }
  } else {
    op.saved.clear();
    op.backward_scratch.clear();
  }
  block_.ops.push_back(std::move(op));
}

Block BlockBuilder::take(bool checkpointable) && {
  block_.checkpointable = checkpointable;
  return std::move(block_);
}

}  // namespace memest
