#include "memory/engine/forward_pass.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace memest {

ForwardPass::ForwardPass(EngineState& engine, ForwardSettings settings)
    : engine_(engine),
      order_(engine.order),
      recorder_(engine.recorder),
      now_(engine.now),
      settings_(std::move(settings)) {}

void ForwardPass::run(Slice sites) {
  const auto& all = order_.sites();
  const auto& checkpoints = engine_.checkpoints.list;
  std::size_t next = 0;
  while (next < checkpoints.size() && checkpoints[next].begin < sites.begin) ++next;
  for (std::uint32_t i = sites.begin; i < sites.end; ++i) {
    const bool ahead = next < checkpoints.size();
    const auto part = engine_.checkpoints.part_at(i);
    const bool inside = part || (ahead && i >= checkpoints[next].begin);
    if (ahead && i == checkpoints[next].begin) hold_inputs(next);
    if (part && i == engine_.checkpoints.remade[*part].begin) hold_inputs_of_part(*part);
    const bool takes_loss = all[i].op == 0 && all[i].instance + 1 == order_.instances().size();
    if (takes_loss && engine_.settings.loss_with_backward) recorder_.enter_phase(Phase::backward);
    hook_before(all[i]);
    run(all[i], !inside);
    hook_after(all[i]);
    if (ahead && i + 1 == checkpoints[next].end) cut_input(next++);
    if (const auto dropped = engine_.checkpoints.dropped_behind(i)) throw_away(*dropped);
  }
}

void ForwardPass::hook_before(const OpSite& site) {
  const auto& ops = order_.program(site).ops;
  const bool first = !ops[site.op].by_caller && (site.op == 0 || ops[site.op - 1U].by_caller);
  if (first && engine_.offload) engine_.offload->before_forward(site.instance);
  BlockHooks* const wrapper = hooks();
  if (wrapper == nullptr) return;
  if (first) wrapper->before_forward(site.instance);
  if (order_.op(site).casts_answer) wrapper->before_answer_cast();
  wrapper->before_op(site);
}

void ForwardPass::hook_after(const OpSite& site) {
  const bool last = site.op + 1 == order_.program(site).ops.size();
  BlockHooks* const wrapper = hooks();
  if (wrapper == nullptr) return;
  wrapper->after_op(site);
  if (order_.op(site).ends_autocast) wrapper->after_answer();
  if (order_.op(site).looks_up) wrapper->after_look_up(site.instance);
  if (last) wrapper->after_forward(site.instance);
}

void ForwardPass::evaluate(Slice sites) {
  for (std::uint32_t i = sites.begin; i < sites.end; ++i) evaluate(order_.sites()[i]);
}

void ForwardPass::evaluate(const OpSite& site) {
  hook_before(site);
  const Run run = run_of(site, GradientMode::evaluation);
  if (run.op.drops) {
    hand_on(run);
  } else {
    make_outputs(run);
  }
  end_references(run);
  hook_after(site);
}

/// Dropout answers what it was given; its result is the last thing that it would make.
void ForwardPass::hand_on(const Run& run) {
  const MadeStorage& result = run.program.made[run.op.made.end - 1];
  const Cell cell = order_.cell(run.site.instance, result.tensor);
  now_.storages[cell] = now_.storages[order_.storage_cell(run.site.instance, run.op.dropped)];
  now_.held[cell] = result.held;
  for (std::uint8_t i = 0; i < result.held; ++i) recorder_.retain(now_.storages[cell]);
}

/// Whether the op runs: what a module computes once it keeps.
bool ForwardPass::runs(const OpSite& site) const {
  if (!order_.op(site).once) return true;
  auto& ran = engine_.ran_once;
  if (std::find(ran.begin(), ran.end(), site) != ran.end()) return false;
  ran.push_back(site);
  return true;
}

void ForwardPass::run(const OpSite& site, bool saves) {
  if (!runs(site)) return;
  const bool gradients =
      engine_.settings.gradients && (saves || !engine_.checkpoints.plan.holds_answer);
  Run run = run_of(site, gradients ? GradientMode::gradients : GradientMode::no_gradients);
  run.keeps_graph = gradients && saves;
  run.keeps_listed = !saves && engine_.checkpoints.plan.selects;
  const bool packs = saves && saves_on_host();
  if (packs) pack(run, false);
  make_or_take_outputs(run);
  if (run.keeps_listed && run.op.kept_selectively) keep_selectively(run);
  keep_leaves(run);
  name_by_node(run);
  if (packs) {
    pack(run, true);
  } else if (saves) {
    save(run);
  }
  end_references(run);
}

/// The hooks are the forward's: what a checkpoint computes again, in the backward, it saves on the
/// device.
bool ForwardPass::saves_on_host() const {
  return engine_.settings.save_on_cpu && settings_.origin == Origin::forward;
}

/// save_on_cpu's pack hook (torch/autograd/graph.py) for what the op reads, or `behind` it makes.
/// A copy to the host reads contiguous memory, so a part of rows is copied on the device first; so
/// is, into page-locked memory made with the tensor's sizes alone, what lies transposed
/// (aten/src/ATen/native/cuda/Copy.cu, copy_requires_temporaries).
void ForwardPass::pack(const Run& run, bool behind) {
  const Lying copied = engine_.settings.save_on_cpu->pin_memory ? Lying::transposed : Lying::part;
  for (std::uint32_t i = run.op.packed.begin; i < run.op.packed.end; ++i) {
    const PackedTensor& packed = run.program.packed[i];
    if (packed.made_by_op != behind || packed.lying < copied) continue;
    const MadeStorage copy{packed.tensor, packed.bytes, Holding::temporaries};
    recorder_.make_and_free(packed.bytes, label_of(run.site, copy));
  }
}

/// The node that takes a leaf's gradient holds the leaf as long as the loss holds the graph.
void ForwardPass::keep_leaves(const Run& run) {
  const std::vector<Cell>& leaves = engine_.leaves;
  if (leaves.empty()) return;
  for (std::uint32_t i = run.op.outputs.begin; i < run.op.outputs.end; ++i) {
    const Cell cell = order_.cell(run.site.instance, run.program.tensors[i]);
    if (std::find(leaves.begin(), leaves.end(), cell) == leaves.end()) continue;
    recorder_.retain(now_.storages[cell]);
    now_.kept_with_loss.push_back(now_.storages[cell]);
  }
}

/// A recompute's graph goes with its function, the forward's with the loss.
void ForwardPass::name_by_node(const Run& run) {
  if (run.mode != GradientMode::gradients || !run.op.trains) return;
  const bool again = settings_.origin == Origin::recompute;
  auto& named = again ? now_.named_again : now_.kept_with_loss;
  const auto name = [&](StorageId storage) {
    if (storage == kNoStorage) return;
    recorder_.retain(storage);
    named.push_back(storage);
  };
  for (std::uint32_t i = run.op.named.begin; i < run.op.named.end; ++i) {
    name(now_.storages[order_.storage_cell(run.site.instance, run.program.tensors[i])]);
  }
  if (!run.op.names_weight || hooks() == nullptr) return;
  name(hooks()->gathered(order_.cell(run.site.instance, run.op.parameter)));
}

void ForwardPass::make_outputs(const Run& run) {
  const OpProgram& op = run.op;
  engine_.buffers.grow(op.forward_buffer);
  if (op.course.begin != op.course.end) return follow_course(run);
  for (std::uint32_t i = op.scratch.begin; i < op.scratch.end; ++i) {
    make_scratch(run, i, Holding::temporaries);
  }
  for (std::uint32_t i = op.made.begin; i < op.made.end; ++i) make_output(run, i);
  engine_.buffers.use(op.workspace, settings_.thread);
  launch(run, op.launches);
  for (std::uint32_t i = op.scratch.end; i > op.scratch.begin; --i) drop_scratch(run, i - 1);
}

void ForwardPass::follow_course(const Run& run) {
  for (std::uint32_t i = run.op.course.begin; i < run.op.course.end; ++i) {
    const ProgramStep& step = run.program.steps[i];
    const std::uint32_t made = run.op.scratch.begin + step.tensor;
    if (step.kept_selectively && takes_kept()) {
      if (step.stays) take_kept(run, made);
    } else if (step.kind == StepKind::product) {
      engine_.buffers.use(run.op.workspace, settings_.thread);
    } else if (step.kind == StepKind::launch) {
      launch(run, run.program.launched[step.tensor]);
    } else if (step.kind == StepKind::free) {
      drop_scratch(run, made);
    } else if (made >= run.op.scratch.end) {
      make_output(run, made);
    } else {
      const bool stays = step.stays && run.keeps_listed;
      make_scratch(run, made, stays ? Holding::activations : Holding::temporaries);
      if (stays) keep(run, made);
    }
  }
}

void ForwardPass::make_scratch(const Run& run, std::uint32_t index, Holding holding) {
  const MadeStorage& made = run.program.made[index];
  Label label = label_of(run.site, made);
  label.holding = holding;
  now_.storages[order_.cell(run.site.instance, made.tensor)] =
      recorder_.allocate(made.bytes, label);
}

void ForwardPass::drop_scratch(const Run& run, std::uint32_t index) {
  const TensorId tensor = run.program.made[index].tensor;
  recorder_.release(now_.storages[order_.cell(run.site.instance, tensor)]);
}

void ForwardPass::make_output(const Run& run, std::uint32_t index) {
  const MadeStorage& made = run.program.made[index];
  const OpSite& site = run.site;
  const Cell cell = order_.cell(site.instance, made.tensor);
  StorageId& storage = now_.storages[cell];
  if ((made.for_backward && !(run.mode == GradientMode::gradients && run.op.trains)) ||
      (made.for_dropout && run.mode == GradientMode::evaluation)) {
    storage = kNoStorage;
    return;
  }
  const Label label = label_of(site, made);
  storage = run.op.casts ? engine_.autocast.use(order_.cell(site.instance, run.op.parameter),
                                                made.bytes, label)
                         : recorder_.allocate(made.bytes, label);
  now_.held[cell] = made.held_by_graph && !run.keeps_graph ? 1 : made.held;
  if (now_.held[cell] > 1) recorder_.retain(storage);
  if (!made.answered) return;
  recorder_.retain(storage);
  engine_.answered.push_back({storage, run.op.trains});
}

/// Kernels of the op that ask for memory of their own.
void ForwardPass::launch(const Run& run, Slice launches) {
  if (launches.begin == launches.end) return;
  Label label;
  label.holding = Holding::temporaries;
  label.origin = settings_.origin;
  label.place = engine_.settings.first_place + run.site.instance;
  label.op = static_cast<std::uint16_t>(run.site.op);
  label.tensor = kKernelScratch;
  const std::span<const ScratchStep> steps(run.program.launches);
  recorder_.launch(steps.subspan(launches.begin, launches.end - launches.begin), label);
}

/// Transformer Engine's offload lists what a layer saves.
Slice ForwardPass::list(const Run& run) {
  if (!engine_.offload || !engine_.offload->takes(run.site.instance)) return run.op.saved;
  for (std::uint32_t i = run.op.listed.begin; i < run.op.listed.end; ++i) {
    const TensorId tensor = run.program.tensors[i];
    Label label = label_of(run.site, {tensor, 0, Holding::activations});
    label.origin = Origin::unpacked;
    engine_.offload->push(run.site.instance,
                          now_.storages[order_.storage_cell(run.site.instance, tensor)], label);
  }
  return run.op.unlisted;
}

void ForwardPass::save(const Run& run) {
  const Slice by_node = list(run);
  for (std::uint32_t i = by_node.begin; i < by_node.end; ++i) {
    const TensorId tensor = run.program.tensors[i];
    recorder_.retain(now_.storages[order_.storage_cell(run.site.instance, tensor)]);
  }
  if (hooks() == nullptr) return;
  // _recomputation_hook's pack_hook: x.detach().
  const bool detaches =
      settings_.origin == Origin::recompute && !engine_.checkpoints.plan.holds_answer;
  if (detaches) hooks()->save_again(run.site);
  if (!run.op.saves_scale) return;
  const Cell weight = order_.cell(run.site.instance, run.op.parameter);
  engine_.gradients[weight].saved_scale = hooks()->scale_of(weight);
  recorder_.retain(engine_.gradients[weight].saved_scale);
}

void ForwardPass::end_references(const Run& run) {
  const OpSite& site = run.site;
  const Slice named = {run.op.attributes.begin,
                       run.keeps_graph ? run.op.attributes.end : run.op.attributes_by_graph};
  for (std::uint32_t i = named.begin; i < named.end; ++i) {
    recorder_.retain(now_.storages[order_.storage_cell(site.instance, run.program.tensors[i])]);
  }
  for (std::uint32_t i = run.op.released.begin; i < run.op.released.end; ++i) {
    const Cell cell = order_.storage_cell(site.instance, run.program.tensors[i]);
    // A recomputed block does not hold what it was given; the logits are the caller's to drop.
    if (now_.held[cell] == 0 || cell == order_.logits_cell()) continue;
    --now_.held[cell];
    recorder_.release(now_.storages[cell]);
  }
  engine_.attributes.name(site, named, now_, settings_.owner);
  if (run.op.ends_autocast) engine_.autocast.clear();
}

Label ForwardPass::label_of(const OpSite& site, const MadeStorage& made) const {
  Label label;
  label.holding = made.holding;
  label.origin = settings_.origin;
  label.place = engine_.settings.first_place + site.instance;
  label.op = static_cast<std::uint16_t>(site.op);
  label.tensor = static_cast<std::uint16_t>(made.tensor);
  return label;
}

}  // namespace memest
