#include <algorithm>

#include "memest/diag/expect.hpp"
#include "memory/engine/engine.hpp"

namespace memest {

void Engine::backward(StorageId loss_gradient) {
  thread_ = Thread::autograd;
  now_.slots[order_.loss_cell()] = {loss_gradient, Reach::directly, true};
  run_sites_back(0, static_cast<std::uint32_t>(order_.sites().size()));
}

void Engine::run_sites_back(std::uint32_t begin, std::uint32_t end) {
  std::size_t before = checkpoints_.list.size();
  while (before > 0 && checkpoints_.list[before - 1].end > end) --before;
  std::uint32_t i = end;
  while (i > begin) {
    if (before > 0 && i == checkpoints_.list[before - 1].end) {
      --before;
      i = checkpoints_.list[before].begin;
      if (checkpoints_.reentrant) {
        backward_of_reentrant(before);
      } else {
        backward_of(before);
      }
      continue;
    }
    --i;
    hook_before_backward(order_.sites()[i]);
    run_backward(order_.sites()[i]);
    hook_after_backward(order_.sites()[i]);
  }
  if (settings_.hooks != nullptr) settings_.hooks->end_backward();
  for (const Cell leaf : leaves_) {
    now_.kept_with_loss.push_back(std::exchange(now_.slots[leaf], {}).storage);
  }
}

void Engine::hook_before_backward(const OpSite& site) {
  const bool last = site.op + 1 == order_.program(site).ops.size();
  if (settings_.hooks != nullptr && last) settings_.hooks->before_backward(site.instance);
}

void Engine::hook_after_backward(const OpSite& site) {
  if (settings_.hooks != nullptr && site.op == 0) settings_.hooks->after_backward(site.instance);
}

/// Where no gradient arrives the node is not part of the loss's graph.
void Engine::run_backward(const OpSite& site) {
  const OpProgram& op = order_.op(site);
  if (!op.trains) return;
  const GradientSlot incoming = take_incoming(site, op);
  if (split_ != nullptr) {
    if (incoming.arrived) run_inputs_part(site, op, incoming);
    return;
  }
  if (!incoming.arrived) {
    drop_saved(site, op);
    return end_checkpoint();
  }
  made_.assign(op.gradients.end - op.gradients.begin, kNoStorage);
  grow_buffer(op.backward_buffer);
  make_again(site, op);
  const std::uint32_t first = unpacks_ ? op.waiting : op.steps.begin;
  run_steps(site, op, {first, op.reductions});
  const StorageId kept = op.hands_kept ? first_saved(site, op) : kNoStorage;
  recorder_.retain(kept);
  if (unpacks_) drop_saved(site, op);
  for (const StorageId storage : made_again_) recorder_.release(storage);
  made_again_.clear();
  run_steps(site, op, {op.reductions, op.steps.end});
  run_steps(site, op, {op.steps.begin, first});
  if (op.unread) make_unread(*op.unread);
  if (!op.hands_on) recorder_.release(incoming.storage);
  for (const StorageId storage : extra_incoming_) recorder_.release(storage);
  extra_incoming_.clear();
  if (!unpacks_) drop_saved(site, op);
  end_checkpoint();
  hand_gradients(site, op, incoming, kept);
}

void Engine::make_again(const OpSite& site, const OpProgram& op) {
  if (!unpacks_) return;
  const BlockProgram& program = order_.program(site);
  for (std::uint32_t i = op.again.begin; i < op.again.end; ++i) {
    const MadeGradient& made = program.made_gradients[i];
    made_again_.push_back(recorder_.allocate(made.bytes, label_of(site, made)));
  }
}

StorageId Engine::first_saved(const OpSite& site, const OpProgram& op) const {
  const TensorId first = order_.program(site).tensors[op.saved.begin];
  return now_.storages[order_.storage_cell(site.instance, first)];
}

/// The gradients of the outputs leave their slots; only one of an op's outputs is differentiable,
/// or the others' gradients (statistics') never arrive.
GradientSlot Engine::take_incoming(const OpSite& site, const OpProgram& op) {
  const BlockProgram& program = order_.program(site);
  GradientSlot incoming;
  for (std::uint32_t i = op.outputs.begin; i < op.outputs.end; ++i) {
    GradientSlot& slot = now_.slots[order_.cell(site.instance, program.tensors[i])];
    if (!slot.arrived) continue;
    if (incoming.arrived) {
      extra_incoming_.push_back(slot.storage);
    } else {
      incoming = slot;
    }
    slot = {};
  }
  return incoming;
}

void Engine::run_steps(const OpSite& site, const OpProgram& op, Slice steps) {
  const BlockProgram& program = order_.program(site);
  for (std::uint32_t i = steps.begin; i < steps.end; ++i) {
    const ProgramStep& step = program.steps[i];
    if (step.kind == StepKind::drop_saved) {
      drop_early(site, op, step.tensor);
      continue;
    }
    if (step.kind == StepKind::product) {
      use_workspace(op.workspace);
      continue;
    }
    if (step.kind == StepKind::free) {
      recorder_.release(made_[step.tensor]);
      made_[step.tensor] = kNoStorage;
      continue;
    }
    const MadeGradient& gradient = program.made_gradients[op.gradients.begin + step.tensor];
    made_[step.tensor] = recorder_.allocate(gradient.bytes, label_of(site, gradient));
    // The backward of a product is two plain products, whatever library the forward called.
    if (op.workspace == Workspace::transformer_engine) {
      use_workspace(op.workspace);
    } else if (op.workspace != Workspace::none && op.workspace != Workspace::cublas_lt_twice &&
               i >= op.product) {
      use_workspace(Workspace::cublas);
    }
  }
}

void Engine::drop_saved(const OpSite& site, const OpProgram& op) {
  const BlockProgram& program = order_.program(site);
  for (std::uint32_t i = op.saved.begin; i < op.saved.end; ++i) {
    const std::uint32_t place = i - op.saved.begin;
    if (std::find(dropped_.begin(), dropped_.end(), place) != dropped_.end()) continue;
    recorder_.release(now_.storages[order_.storage_cell(site.instance, program.tensors[i])]);
  }
  dropped_.clear();
}

/// Where the forward ran again all that was saved has gone by then.
void Engine::drop_early(const OpSite& site, const OpProgram& op, std::uint32_t place) {
  if (unpacks_) return;
  const TensorId saved = order_.program(site).tensors[op.saved.begin + place];
  recorder_.release(now_.storages[order_.storage_cell(site.instance, saved)]);
  dropped_.push_back(place);
}

void Engine::hand_gradients(const OpSite& site, const OpProgram& op, const GradientSlot& incoming,
                            StorageId kept) {
  const BlockProgram& program = order_.program(site);
  for (std::uint32_t i = op.handed.begin; i < op.handed.end; ++i) {
    const HandedGradient& handed = program.handed[i];
    if (split_ != nullptr && handed.to_parameter) continue;
    const bool on = handed.tensor == InputGradient::kHandedOn;
    const bool in_place = handed.tensor == InputGradient::kKept;
    const StorageId storage = on ? incoming.storage : in_place ? kept : made_[handed.tensor];
    GradientSlot gradient{storage, handed.reach, true};
    if (on && incoming.reach == Reach::through_view) gradient.reach = Reach::through_view;
    if (!handed.last) recorder_.retain(gradient.storage);
    const Cell target = order_.cell(site.instance, handed.input);
    const Label label = sum_label(site, handed);
    if (!handed.to_parameter && gradient.reach == Reach::through_view &&
        is_leaf_of_checkpoint(order_.storage_cell(site.instance, handed.input))) {
      copied_leaves_.push_back({target, label, handed.sum_bytes});
    }
    if (!handed.to_parameter) {
      put(now_.slots[target], gradient, {handed.sum_bytes, label});
      continue;
    }
    ParameterState& parameter = parameters_[target];
    put(parameter.slot, gradient, {handed.sum_bytes, label, settings_.parameter_sums});
    if (++parameter.arrived == order_.parameters()[target].contributions) accumulate(target);
  }
  copy_leaves();
}

/// torch/csrc/autograd/input_buffer.cpp: a second gradient is added in place only where nothing
/// but the slot holds the first one's storage.
void Engine::put(GradientSlot& slot, const GradientSlot& gradient, const Sum& sum) {
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

/// AccumulateGrad: the first gradient is adopted as it is, a later one added in place.
void Engine::accumulate(std::uint32_t index) {
  ParameterState& parameter = parameters_[index];
  StorageId arrived = parameter.slot.storage;
  parameter.slot = {};
  parameter.arrived = 0;
  if (settings_.adds_to_buffers) return recorder_.release(arrived);
  if (settings_.gradient_bytes > 0) arrived = in_gradient_type(index, arrived);
  if (settings_.hooks != nullptr && settings_.hooks->take_gradient(index, arrived)) return;
  if (parameter.gradient == kNoStorage) {
    parameter.gradient = arrived;
  } else {
    recorder_.release(arrived);
  }
}

/// Recipes whose gradients are wider than the weights cast each as it arrives.
StorageId Engine::in_gradient_type(std::uint32_t index, StorageId arrived) {
  const ParameterUse& use = order_.parameters()[index];
  Label label;
  label.holding = Holding::gradients;
  label.origin = Origin::backward;
  label.place = use.instance;
  label.tensor = static_cast<std::uint16_t>(use.tensor);
  const StorageId cast = recorder_.allocate(use.elements * settings_.gradient_bytes, label);
  recorder_.release(arrived);
  return cast;
}

void Engine::drop_gradients() {
  if (settings_.hooks != nullptr) settings_.hooks->drop_gradients();
  for (ParameterState& parameter : parameters_) {
    recorder_.release(parameter.gradient);
    parameter.gradient = kNoStorage;
  }
}

Label Engine::label_of(const OpSite& site, const MadeGradient& made) const {
  Label label;
  label.holding = made.holding;
  label.origin = Origin::backward;
  label.place = site.instance;
  label.op = static_cast<std::uint16_t>(site.op);
  label.tensor = static_cast<std::uint16_t>(made.like);
  return label;
}

Label Engine::sum_label(const OpSite& site, const HandedGradient& handed) const {
  return label_of(
      site, MadeGradient{handed.input, handed.sum_bytes,
                         handed.to_parameter ? Holding::gradients : Holding::passing_gradients});
}

}  // namespace memest
