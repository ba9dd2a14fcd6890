#include "memory/engine/backward_pass.hpp"

#include <algorithm>
#include <utility>

namespace memest {

namespace {

bool is_view(Reach reach) { return reach == Reach::through_view || reach == Reach::transposed; }

}  // namespace

void BackwardPass::run(Slice sites) {
  const Checkpoints& checkpoints = engine_.checkpoints;
  Node node;
  node.unpacks = engine_.settings.save_on_cpu.has_value();
  const StorageId zeros = gradient_of_logits();
  std::size_t before = checkpoints.list.size();
  while (before > 0 && checkpoints.list[before - 1].end > sites.end) --before;
  std::uint32_t i = sites.end;
  while (i > sites.begin) {
    make_again(i - 1);
    if (const auto part = checkpoints.part_at(i - 1)) {
      i = checkpoints.remade[*part].begin;
      run_remade(node, *part);
      continue;
    }
    if (before > 0 && i == checkpoints.list[before - 1].end) {
      --before;
      i = checkpoints.list[before].begin;
      if (checkpoints.plan.holds_answer) {
        run_reentrant(node, before);
      } else {
        run_checkpoint(node, before);
      }
      continue;
    }
    --i;
    hook_before(order_.sites()[i]);
    run_node(node, order_.sites()[i]);
    hook_after(order_.sites()[i]);
  }
  recorder_.release(zeros);
  for (const std::uint32_t parameter : std::exchange(finished_, {})) accumulate(parameter);
  if (engine_.settings.hooks != nullptr) engine_.settings.hooks->end_backward();
  if (engine_.offload) engine_.offload->end_backward();
  for (const Cell leaf : engine_.leaves) {
    now_.kept_with_loss.push_back(std::exchange(now_.slots[leaf], {}).storage);
  }
}

/// The node of a compiled model answers the loss and the logits.
/// torch/csrc/autograd/python_function .cpp, PyNode::apply: zeros for an output that got no
/// gradient, held until the node has run.
StorageId BackwardPass::gradient_of_logits() const {
  if (!order_.is_one_region()) return kNoStorage;
  Label label;
  label.holding = Holding::passing_gradients;
  label.origin = Origin::backward;
  label.place = static_cast<std::uint32_t>(order_.instances().size() - 1);
  label.tensor = static_cast<std::uint16_t>(order_.logits_tensor());
  return recorder_.allocate(order_.logits_bytes(), label);
}

void BackwardPass::hook_before(const OpSite& site) {
  const bool last = site.op + 1 == order_.program(site).ops.size();
  BlockHooks* const hooks = engine_.settings.hooks;
  if (hooks != nullptr && last) hooks->before_backward(site.instance);
  // Node.register_prehook: behind the hooks of the tensor, which are the wrapper's.
  if (engine_.offload && last) engine_.offload->before_backward(site.instance);
  if (hooks != nullptr) hooks->before_node(site);
}

void BackwardPass::hook_after(const OpSite& site) const {
  BlockHooks* const hooks = engine_.settings.hooks;
  if (hooks == nullptr) return;
  hooks->after_node(site);
  if (site.op == 0) hooks->after_backward(site.instance);
}

void BackwardPass::take_up(Node& node, const OpSite& site) const {
  node.site = &site;
  node.op = &order_.op(site);
  node.program = &order_.program(site);
}

/// Where no gradient arrives the node is not part of the loss's graph.
void BackwardPass::run_node(Node& node, const OpSite& site) {
  take_up(node, site);
  if (!node.op->trains || site.reuses) return;
  take_incoming(node);
  if (split_ != nullptr) {
    if (node.incoming.arrived) run_inputs_part(node);
  } else if (node.incoming.arrived) {
    run_formula(node);
  } else {
    drop_saved(node);
    end_checkpoint(node);
  }
}

/// Engine::evaluate_function: of what a node saved its own formula lets go, or, recomputed, the
/// hooks that unpacked it; then its gradients are handed on.
void BackwardPass::run_formula(Node& node) {
  const OpProgram& op = *node.op;
  node.made.assign(op.gradients.end - op.gradients.begin, kNoStorage);
  engine_.buffers.grow(op.backward_buffer);
  if (op.adds_to_buffer && engine_.settings.hooks != nullptr) {
    engine_.settings.hooks->write_gradient(order_.cell(node.site->instance, *op.adds_to_buffer));
  }
  make_when_recomputed(node);
  unpack(node);
  const bool by_hooks = node.recomputed || node.unpacks;
  const std::uint32_t first = node.recomputed ? op.waiting : op.steps.begin;
  run_steps(node, {first, op.reductions});
  const StorageId kept = op.hands_kept ? first_saved(node) : kNoStorage;
  recorder_.retain(kept);
  if (by_hooks) drop_saved(node);
  for (const StorageId storage : node.made_when_recomputed) recorder_.release(storage);
  node.made_when_recomputed.clear();
  run_steps(node, {op.reductions, op.steps.end});
  run_steps(node, {op.steps.begin, first});
  if (op.unread) engine_.buffers.make_unread(*op.unread);
  drop_incoming(node);
  if (!by_hooks) drop_saved(node);
  end_checkpoint(node);
  hand_gradients(node, kept);
}

void BackwardPass::make_when_recomputed(Node& node) {
  if (!node.recomputed) return;
  for (std::uint32_t i = node.op->made_when_recomputed.begin; i < node.op->made_when_recomputed.end;
       ++i) {
    const MadeGradient& made = node.program->made_gradients[i];
    node.made_when_recomputed.push_back(recorder_.allocate(made.bytes, label_of(*node.site, made)));
  }
}

/// save_on_cpu's unpack hook: the node's apply() unpacks all that it saved before it computes, and
/// holds it to its end.
void BackwardPass::unpack(Node& node) {
  if (!node.unpacks || node.recomputed) return;
  for (std::uint32_t i = node.op->packed.begin; i < node.op->packed.end; ++i) {
    const PackedTensor& packed = node.program->packed[i];
    Label label = label_of(*node.site, {packed.tensor, packed.bytes, Holding::activations});
    label.origin = Origin::unpacked;
    node.unpacked.push_back(recorder_.allocate(packed.bytes, label));
  }
}

StorageId BackwardPass::first_saved(const Node& node) const {
  const TensorId first = node.program->tensors[node.op->saved.begin];
  return now_.storages[order_.storage_cell(node.site->instance, first)];
}

/// The gradients of the outputs leave their slots; only one of an op's outputs is differentiable,
/// or the others' gradients (statistics') never arrive.
void BackwardPass::take_incoming(Node& node) {
  node.incoming = {};
  for (std::uint32_t i = node.op->outputs.begin; i < node.op->outputs.end; ++i) {
    const TensorId output = node.program->tensors[i];
    GradientSlot& slot = now_.slots[order_.cell(node.site->instance, output)];
    if (!slot.arrived) continue;
    if (node.incoming.arrived) {
      node.extra_incoming.push_back(slot.storage);
    } else {
      node.incoming = slot;
    }
    slot = {};
  }
}

void BackwardPass::drop_incoming(Node& node) {
  if (!node.op->hands_on) recorder_.release(node.incoming.storage);
  for (const StorageId storage : node.extra_incoming) recorder_.release(storage);
  node.extra_incoming.clear();
}

void BackwardPass::run_steps(Node& node, Slice steps) {
  for (std::uint32_t i = steps.begin; i < steps.end; ++i) {
    const ProgramStep& step = node.program->steps[i];
    if (step.kind == StepKind::drop_saved) {
      drop_early(node, step.tensor);
      continue;
    }
    if (step.kind == StepKind::product) {
      engine_.buffers.use(node.op->workspace, EngineThread::autograd);
      continue;
    }
    StorageId& made = node.made[step.tensor];
    if (step.kind == StepKind::free) {
      recorder_.release(std::exchange(made, kNoStorage));
      continue;
    }
    const MadeGradient& gradient =
        node.program->made_gradients[node.op->gradients.begin + step.tensor];
    made = recorder_.allocate(gradient.bytes, label_of(*node.site, gradient));
    use_workspace(node, i);
  }
}

/// The backward of a product is two plain products, whatever library the forward called.
void BackwardPass::use_workspace(const Node& node, std::uint32_t step) {
  const OpProgram& op = *node.op;
  if (op.workspace == Workspace::transformer_engine) {
    engine_.buffers.use(op.workspace, EngineThread::autograd);
  } else if (op.workspace != Workspace::none && op.workspace != Workspace::cublas_lt_twice &&
             step >= op.product) {
    engine_.buffers.use(Workspace::cublas, EngineThread::autograd);
  }
}

/// The storages that go with the node.
Slice BackwardPass::held_by(const Node& node) const {
  const bool listed = engine_.offload && engine_.offload->takes(node.site->instance);
  return listed ? node.op->unlisted : node.op->saved;
}

void BackwardPass::drop_saved(Node& node) {
  if (node.unpacks && !node.recomputed) {
    for (const StorageId storage : node.unpacked) recorder_.release(storage);
    return node.unpacked.clear();
  }
  const Slice held = held_by(node);
  for (std::uint32_t i = held.begin; i < held.end; ++i) {
    const TensorId tensor = node.program->tensors[i];
    if (std::ranges::find(node.dropped, tensor) != node.dropped.end()) continue;
    recorder_.release(now_.storages[order_.storage_cell(node.site->instance, tensor)]);
  }
  node.dropped.clear();
  BlockHooks* const hooks = engine_.settings.hooks;
  if (hooks != nullptr && node.recomputed) hooks->drop_saved_again(*node.site);
  if (!node.op->saves_scale) return;
  const Cell weight = order_.cell(node.site->instance, node.op->parameter);
  recorder_.release(std::exchange(engine_.gradients[weight].saved_scale, kNoStorage));
}

/// Where the forward was recomputed all that was saved has gone by then; the first of two parts
/// retains the graph, and all that was saved with it.
void BackwardPass::drop_early(Node& node, std::uint32_t place) {
  if (node.recomputed || node.unpacks || split_ != nullptr) return;
  const TensorId saved = node.program->tensors[node.op->saved.begin + place];
  const Slice held = held_by(node);
  const auto tensors = node.program->tensors.begin();
  if (std::find(tensors + held.begin, tensors + held.end, saved) == tensors + held.end) return;
  recorder_.release(now_.storages[order_.storage_cell(node.site->instance, saved)]);
  node.dropped.push_back(saved);
}

void BackwardPass::hand_gradients(Node& node, StorageId kept) {
  const OpSite& site = *node.site;
  for (std::uint32_t i = node.op->handed.begin; i < node.op->handed.end; ++i) {
    const HandedGradient& handed = node.program->handed[i];
    if (split_ != nullptr && handed.to_parameter) continue;
    const bool on = handed.tensor == InputGradient::kHandedOn;
    const bool in_place = handed.tensor == InputGradient::kKept;
    const StorageId storage = on         ? node.incoming.storage
                              : in_place ? kept
                                         : node.made[handed.tensor];
    GradientSlot gradient{storage, handed.reach, true};
    if (on && is_view(node.incoming.reach) && gradient.reach != Reach::transposed) {
      gradient.reach = node.incoming.reach;
    }
    if (!handed.last) recorder_.retain(gradient.storage);
    const Cell target = order_.cell(site.instance, handed.input);
    const Label label = sum_label(site, handed);
    if (!handed.to_parameter) {
      const bool transposed = gradient.reach == Reach::transposed;
      if (is_view(gradient.reach) &&
          (std::ranges::find(engine_.leaves, target) != engine_.leaves.end() ||
           (transposed && is_leaf(node, order_.storage_cell(site.instance, handed.input))))) {
        node.copied_leaves.push_back({target, label, handed.sum_bytes});
      }
      put(now_.slots[target], gradient, {handed.sum_bytes, label});
      continue;
    }
    ParameterGradient& parameter = engine_.gradients[target];
    put(parameter.slot, gradient, {handed.sum_bytes, label, engine_.settings.parameter_sums});
    if (++parameter.arrived < order_.parameters()[target].contributions) continue;
    // A compiled model is one node, and hands on its gradients when it has run.
    if (order_.is_one_region()) {
      finished_.push_back(target);
    } else {
      accumulate(target);
    }
  }
  copy_leaves(node);
}

/// torch/csrc/autograd/input_buffer.cpp, InputBuffer::accumulate: a second gradient is added in
/// place only where nothing but the slot holds the first one's storage. With y = x + f(x) the
/// gradient of y waits for x, and f's node holds it too: f's share is added out of place.
void BackwardPass::put(GradientSlot& slot, const GradientSlot& gradient, const Sum& sum) {
  if (!slot.arrived || gradient.storage == kNoStorage) {
    slot = gradient;
    if (slot.reach == Reach::summed) slot.reach = Reach::directly;
    return;
  }
  if (gradient.reach == Reach::summed) {
    recorder_.release(slot.storage);
    slot = {gradient.storage, Reach::directly, true};
    return;
  }
  if (slot.reach == Reach::directly && recorder_.references(slot.storage) == 1) {
    recorder_.release(gradient.storage);
    return;
  }
  const StorageId made = recorder_.allocate(sum.bytes, sum.label, sum.stream);
  recorder_.release(slot.storage);
  recorder_.release(gradient.storage);
  slot = {made, gradient.reach == Reach::wrapped ? Reach::wrapped : Reach::directly, true};
}

/// torch/csrc/autograd/functions/accumulate_grad.h, AccumulateGrad::accumulateGrad: the first
/// gradient is adopted as it is, a later one added in place.
void BackwardPass::accumulate(std::uint32_t index) {
  const EngineSettings& settings = engine_.settings;
  ParameterGradient& parameter = engine_.gradients[index];
  StorageId arrived = std::exchange(parameter.slot, {}).storage;
  parameter.arrived = 0;
  // _make_backward_post_hook: main_grad.add_(param.grad.data), then param.grad = None. The node of
  // the sum is of the stream in which DDP was made.
  if (settings.adds_to_buffers) {
    recorder_.await(arrived);
    return recorder_.release(arrived);
  }
  if (settings.gradient_bytes > 0) arrived = in_gradient_type(index, arrived);
  if (settings.hooks != nullptr && settings.hooks->take_gradient(index, arrived)) return;
  if (parameter.storage == kNoStorage) {
    parameter.storage = arrived;
  } else {
    recorder_.release(arrived);
  }
}

/// Recipes whose gradients are wider than the weights cast each as it arrives.
StorageId BackwardPass::in_gradient_type(std::uint32_t index, StorageId arrived) {
  const ParameterUse& use = order_.parameters()[index];
  Label label;
  label.holding = Holding::gradients;
  label.origin = Origin::backward;
  label.place = use.instance;
  label.tensor = static_cast<std::uint16_t>(use.tensor);
  const StorageId cast = recorder_.allocate(use.elements * engine_.settings.gradient_bytes, label);
  recorder_.release(arrived);
  return cast;
}

Label BackwardPass::label_of(const OpSite& site, const MadeGradient& made) {
  Label label;
  label.holding = made.holding;
  label.origin = Origin::backward;
  label.place = site.instance;
  label.op = static_cast<std::uint16_t>(site.op);
  label.tensor = static_cast<std::uint16_t>(made.like);
  return label;
}

Label BackwardPass::sum_label(const OpSite& site, const HandedGradient& handed) {
  return label_of(
      site, MadeGradient{handed.input, handed.sum_bytes,
                         handed.to_parameter ? Holding::gradients : Holding::passing_gradients});
}

}  // namespace memest
