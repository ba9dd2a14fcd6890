#include "graph/lower/ops/block_builder.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "memest/diag/expect.hpp"

namespace memest {

BackwardWriter::Made BackwardWriter::make(TensorId like, DType dtype) {
  const auto made = static_cast<Made>(op_.backward_tensors.size());
  op_.backward_tensors.push_back({like, dtype});
  op_.backward_steps.push_back({StepKind::allocate, made});
  return made;
}

void BackwardWriter::reserve(TensorId like, DType dtype) {
  const Made made = make(like, dtype);
  op_.backward_tensors[made].written = false;
  drop(made);
}

void BackwardWriter::remake(Made tensor) {
  op_.backward_steps.push_back({StepKind::allocate, tensor});
}

void BackwardWriter::drop(Made tensor) { op_.backward_steps.push_back({StepKind::free, tensor}); }

void BackwardWriter::leave_node() {
  op_.own_steps = std::min(op_.own_steps, op_.backward_steps.size());
}

BackwardWriter::Made BackwardWriter::launch_making(TensorId like, KernelLaunch kernel) {
  kernel.result = static_cast<Made>(op_.backward_tensors.size());
  op_.backward_tensors.push_back({like, kernel.dtype});
  const Made made = kernel.result;
  launch(std::move(kernel));
  return made;
}

void BackwardWriter::launch(KernelLaunch kernel) {
  const auto index = static_cast<std::uint8_t>(op_.backward_launches.size());
  op_.backward_launches.push_back(std::move(kernel));
  op_.backward_steps.push_back({StepKind::launch, index});
}

void BackwardWriter::give(TensorId input, Made tensor, Reach reach) {
  op_.gradients.push_back({input, tensor, reach});
}

void BackwardWriter::give_kept(TensorId input) {
  op_.gradients.push_back({input, InputGradient::kKept, Reach::through_view});
}

void BackwardWriter::hand_on(TensorId input, Reach reach) {
  op_.gradients.push_back({input, InputGradient::kHandedOn, reach});
}

Frame::~Frame() {
  // A frame around no op (an identity) ends where the op before it does.
  const std::size_t last = block_.block_.ops.empty() ? 0 : block_.block_.ops.size() - 1;
  for (const TensorId id : locals_) {
    block_.held_.push_back({block_.block_.tensors[id].storage, last});
  }
}

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

TensorId BlockBuilder::block_input(Shape shape, DType dtype, bool wants_gradient) {
  const TensorId id = make({"input"}, std::move(shape), dtype, Role::input);
  needs_gradient_[id] = wants_gradient && precision_.gradients;
  block_.input = id;
  return id;
}

std::optional<TensorId> BlockBuilder::find(Place place) const {
  for (TensorId id = 0; id < block_.tensors.size(); ++id) {
    const Tensor& tensor = block_.tensors[id];
    if (tensor.op == place.op && tensor.name == place.name) return id;
  }
  return std::nullopt;
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
  block_.tensors[id].frozen = precision_.frozen || precision_.adapter.has_value();
  needs_gradient_[id] = precision_.gradients && !block_.tensors[id].frozen;
  return id;
}

TensorId BlockBuilder::trained_parameter(Place place, Shape shape) {
  if (const auto known = find(place)) return *known;
  const TensorId id = make(place, std::move(shape), trained_type(), Role::parameter);
  needs_gradient_[id] = precision_.gradients;
  return id;
}

TensorId BlockBuilder::whole_parameter(Place place, Shape shape) {
  const TensorId id = make(place, std::move(shape), precision_.weights, Role::parameter);
  needs_gradient_[id] = true;
  return id;
}

TensorId BlockBuilder::unstepped_parameter(Place place, Shape shape) {
  const TensorId id = whole_parameter(place, std::move(shape));
  block_.tensors[id].unstepped = true;
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

TensorId BlockBuilder::alias(Place place, TensorId base, Shape shape) {
  const TensorId id =
      make(place, std::move(shape), block_.tensors[base].dtype, block_.tensors[base].role);
  block_.tensors[id].storage = block_.tensors[base].storage;
  needs_gradient_[id] = needs_gradient_[base];
  return id;
}

void BlockBuilder::outlive(TensorId id, std::string_view name) {
  Tensor& owner = block_.tensors[block_.tensors[id].storage];
  owner.name = name;
  owner.outlives_block = true;
}

void BlockBuilder::let_go(std::string_view name) {
  const TensorId id = shared(name, {Expr(1)}, DType::fp32);
  (block_.ops.empty() ? let_go_first_ : block_.ops.back().releases).push_back(id);
}

void BlockBuilder::send_forward(Message message) {
  block_.ops.back().forward_messages.push_back(std::move(message));
}

void BlockBuilder::send_backward(Message message) {
  Op& op = block_.ops.back();
  if (needs_gradient_[op.outputs.front()]) op.backward_messages.push_back(std::move(message));
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
  if (trains) drop_unwanted(op);
  for (InputGradient& gradient : op.gradients) {
    if (block_.tensors[gradient.input].distributed) gradient.reach = Reach::wrapped;
  }
  op.forward.flops = flow.forward;
  // A look-up reads the rows that it copies, not the table.
  if (op.kind == OpKind::embedding) read = written + block_.tensors[op.inputs.front()].bytes();
  // nccl-tests times a message with the reads and writes of both ends in it.
  const auto is_sent = [&op](const std::vector<Message>& messages) {
    return op.kind == OpKind::exchange && !messages.empty();
  };
  if (op.kind != OpKind::view && !is_sent(op.forward_messages)) op.forward.bytes = read + written;
  if (trains) {
    // Backward reads what was saved and the outputs' gradients, and writes the inputs' gradients.
    op.backward.flops = flow.backward;
    if (!op.backward_tensors.empty() && !is_sent(op.backward_messages)) {
      op.backward.bytes = backward_traffic(op, written);
    }
  } else {
    op.saved.clear();
    op.backward_tensors.clear();
    op.backward_steps.clear();
    op.backward_launches.clear();
    op.backward_messages.clear();
    op.gradients.clear();
  }
  for (bool LayerParts::* const part : parts_) op.part_of.*part = true;
  block_.ops.push_back(std::move(op));
  block_.ops.back().releases = std::exchange(let_go_first_, {});
}

/// Gradients of inputs that want none are not handed on. A fused kernel makes them all the same,
/// other backwards leave them out.
void BlockBuilder::drop_unwanted(Op& op) const {
  const auto wanted = [this](const InputGradient& g) { return needs_gradient_[g.input]; };
  if (std::all_of(op.gradients.begin(), op.gradients.end(), wanted)) return;
  std::vector<InputGradient> all = std::exchange(op.gradients, {});
  std::copy_if(all.begin(), all.end(), std::back_inserter(op.gradients), wanted);
  for (const InputGradient& gradient : all) {
    const std::uint8_t made = gradient.tensor;
    const bool given = std::any_of(op.gradients.begin(), op.gradients.end(),
                                   [made](const InputGradient& one) { return one.tensor == made; });
    if (given || made >= InputGradient::kKept) continue;
    if (op.kind == OpKind::attention) {
      op.backward_steps.push_back({StepKind::free, made});
      continue;
    }
    const auto of_it = [made](const Step& step) {
      return step.kind != StepKind::launch && step.tensor == made;
    };
    std::erase_if(op.backward_steps, of_it);
  }
}

void BlockBuilder::end_part(GraphScope scope) {
  const std::size_t end = block_.ops.size();
  block_.captured_parts.push_back({scope, part_begin_, end});
  part_begin_ = end;
}

std::vector<TensorId> BlockBuilder::abandon(std::size_t first) {
  std::vector<TensorId> kept;
  for (std::size_t i = block_.ops.size(); i > first; --i) {
    Op& op = block_.ops[i - 1];
    if (op.gradients.empty()) continue;
    for (const TensorId id : op.saved) {
      if (block_.tensors[block_.tensors[id].storage].role == Role::activation) kept.push_back(id);
    }
    op.saved.clear();
    op.backward = {};
    op.backward_tensors.clear();
    op.backward_steps.clear();
    op.backward_launches.clear();
    op.gradients.clear();
    for (const TensorId id : op.outputs) {
      needs_gradient_[id] = false;
      block_.tensors[id].for_backward = false;  // which is made all the same
    }
  }
  return kept;
}

Expr BlockBuilder::backward_traffic(const Op& op, const Expr& written) const {
  Expr traffic = written;
  for (const TensorId id : op.saved) traffic += block_.tensors[id].bytes();
  for (const TensorId id : op.inputs) {
    if (needs_gradient_[id]) traffic += block_.tensors[id].bytes();
  }
  return traffic;
}

void BlockBuilder::write_releases() {
  constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> last(block_.tensors.size(), kNever);
  for (std::size_t i = 0; i < block_.ops.size(); ++i) {
    for (const TensorId id : block_.ops[i].outputs) last[block_.tensors[id].storage] = i;
    for (const TensorId id : block_.ops[i].inputs) last[block_.tensors[id].storage] = i;
  }
  std::vector<Held> ends;
  std::vector<bool> held(block_.tensors.size(), false);
  for (const Held& local : held_) held[local.storage] = true;
  const auto made_here = [this](TensorId storage) {
    const Tensor& tensor = block_.tensors[storage];
    return tensor.storage == storage && !tensor.shared && !tensor.outlives_block &&
           tensor.role != Role::parameter;
  };
  const std::size_t end = block_.ops.size() - 1;
  const TensorId result = block_.tensors[block_.output].storage;
  for (TensorId id = 0; id < block_.tensors.size(); ++id) {
    const bool ends_at_use = !held[id] || block_.tensors[id].held_by_graph;
    if (ends_at_use && last[id] != kNever && id != result && id != block_.input && made_here(id)) {
      ends.push_back({id, last[id]});
    }
  }
  for (auto at = held_.begin(); at != held_.end(); ++at) {
    const Held& local = *at;
    // A storage that several functions hold ends with the last of them.
    const bool later = std::any_of(std::next(at), held_.end(), [&local](const Held& other) {
      return other.storage == local.storage;
    });
    const bool callers = local.storage == block_.input && !input_goes_;
    if (later || callers || local.storage == result || !made_here(local.storage)) continue;
    const std::size_t used = last[local.storage];
    ends.push_back({local.storage, used == kNever ? local.op : std::max(local.op, used)});
  }
  // The caller's local holds the block's input until the block returns.
  // It names the result from then on, where that is the input, written in place.
  const Tensor& input = block_.tensors[block_.input];
  const bool handed_on = result == block_.input;
  if (input.role == Role::input && !input.shared && !input_goes_ && !handed_on) {
    ends.push_back({block_.input, end});
  }
  for (const Held& release : ends) block_.ops[release.op].releases.push_back(release.storage);
}

Block BlockBuilder::take(TensorId output, bool checkpointable) && {
  block_.output = output;
  block_.checkpointable = checkpointable;
  {
    Frame function(*this);
    for (const TensorId id : held_to_end_) function.local(id);
  }
  write_releases();
  return std::move(block_);
}

}  // namespace memest
