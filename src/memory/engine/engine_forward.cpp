#include <algorithm>

#include "memest/diag/expect.hpp"
#include "memory/engine/engine.hpp"

namespace memest {

namespace {

std::vector<Cell> leaves_of(const ForwardOrder& order) {
  std::vector<bool> made(order.cells(), false);  // by an op with a backward
  std::vector<Cell> leaves;
  for (const OpSite& site : order.sites()) {
    const OpProgram& op = order.op(site);
    if (!op.trains) continue;
    const BlockProgram& program = order.program(site);
    for (std::uint32_t i = op.outputs.begin; i < op.outputs.end; ++i) {
      made[order.cell(site.instance, program.tensors[i])] = true;
    }
    for (std::uint32_t i = op.handed.begin; i < op.handed.end; ++i) {
      if (program.handed[i].to_parameter) continue;
      const Cell cell = order.cell(site.instance, program.handed[i].input);
      if (made[cell]) continue;
      made[cell] = true;
      leaves.push_back(cell);
    }
  }
  return leaves;
}

}  // namespace

Engine::Engine(const Graph& graph, const ForwardOrder& order, const EngineSettings& settings,
               Recorder& recorder)
    : order_(order),
      settings_(settings),
      recorder_(recorder),
      checkpoints_(
          settings.megatron_ranks == 0
              ? checkpoints_of(graph, order, settings.recompute, settings.checkpoints)
              : megatron_checkpoints_of(graph, order, settings.recompute, settings.megatron_ranks)),
      now_(fresh()),
      parameters_(order.parameters().size()),
      leaves_(leaves_of(order)) {
  find_graph_inputs();
}

void Engine::begin_forward(StorageId batch, StorageId labels) {
  thread_ = Thread::forward;
  origin_ = Origin::forward;
  now_.inputs.clear();
  for (const Cell cell : order_.batch_cells()) now_.storages[cell] = batch;
  for (const Cell cell : order_.label_cells()) now_.storages[cell] = labels;
}

/// The model's outputs are the caller's from here on.
void Engine::end_forward() {
  now_.held[order_.logits_cell()] = 0;
  now_.held[order_.loss_cell()] = 0;
}

void Engine::forward(StorageId batch, StorageId labels) {
  begin_forward(batch, labels);
  run_sites(0, static_cast<std::uint32_t>(order_.sites().size()));
  end_forward();
}

void Engine::run_sites(std::uint32_t begin, std::uint32_t end) {
  const auto& sites = order_.sites();
  std::size_t next = 0;
  while (next < checkpoints_.list.size() && checkpoints_.list[next].begin < begin) ++next;
  for (std::uint32_t i = begin; i < end; ++i) {
    const bool ahead = next < checkpoints_.list.size();
    const bool inside = ahead && i >= checkpoints_.list[next].begin;
    if (ahead && i == checkpoints_.list[next].begin) {
      const auto first_input = static_cast<std::uint32_t>(now_.inputs.size());
      hold_inputs(checkpoints_.list[next]);
      now_.inputs_of[next] = {first_input, static_cast<std::uint32_t>(now_.inputs.size())};
    }
    const bool takes_loss = sites[i].op == 0 && sites[i].instance + 1 == order_.instances().size();
    if (takes_loss && settings_.loss_outside) recorder_.turn(Phase::backward);
    hook_before_forward(sites[i]);
    run_forward(sites[i], !inside);
    hook_after_forward(sites[i]);
    if (inside && i + 1 == checkpoints_.list[next].end) cut_input(next++);
  }
}

void Engine::hook_before_forward(const OpSite& site) {
  const auto& ops = order_.program(site).ops;
  const bool first = !ops[site.op].by_caller && (site.op == 0 || ops[site.op - 1U].by_caller);
  if (settings_.hooks != nullptr && first) settings_.hooks->before_forward(site.instance);
}

void Engine::hook_after_forward(const OpSite& site) {
  const bool last = site.op + 1 == order_.program(site).ops.size();
  if (settings_.hooks == nullptr) return;
  if (order_.op(site).looks_up) settings_.hooks->after_look_up(site.instance);
  if (last) settings_.hooks->after_forward(site.instance);
}

/// Nothing is saved, nothing dropped out, and nothing made that only a backward reads.
void Engine::evaluate(StorageId batch, StorageId labels) {
  begin_forward(batch, labels);
  for (const OpSite& site : order_.sites()) evaluate_site(site);
  end_forward();
}

void Engine::evaluate_site(const OpSite& site) {
  const OpProgram& op = order_.op(site);
  if (op.drops) {
    hand_on(site, op);
  } else {
    make_outputs(site, op, Mode::evaluation);
  }
  end_references(site, op);
}

/// Dropout answers what it was given; its result is the last thing that it would make.
void Engine::hand_on(const OpSite& site, const OpProgram& op) {
  const MadeStorage& result = order_.program(site).made[op.made.end - 1];
  const Cell cell = order_.cell(site.instance, result.tensor);
  now_.storages[cell] = now_.storages[order_.storage_cell(site.instance, op.dropped)];
  now_.held[cell] = result.held;
  for (std::uint8_t i = 0; i < result.held; ++i) recorder_.retain(now_.storages[cell]);
}

void Engine::run_forward(const OpSite& site, bool saves) {
  const OpProgram& op = order_.op(site);
  if (!runs(site, op)) return;
  const bool gradients = settings_.gradients && (saves || !checkpoints_.reentrant);
  keeps_graph_ = gradients && saves;
  make_or_take_outputs(site, op, gradients ? Mode::gradients : Mode::no_gradients);
  if (!saves && op.kept_selectively) keep_selectively(site, op);
  keep_leaves(site, op);
  if (saves) save(site, op);
  end_references(site, op);
}

/// The node that takes a leaf's gradient holds the leaf as long as the loss holds the graph.
void Engine::keep_leaves(const OpSite& site, const OpProgram& op) {
  if (leaves_.empty()) return;
  const BlockProgram& program = order_.program(site);
  for (std::uint32_t i = op.outputs.begin; i < op.outputs.end; ++i) {
    const Cell cell = order_.cell(site.instance, program.tensors[i]);
    if (std::find(leaves_.begin(), leaves_.end(), cell) == leaves_.end()) continue;
    recorder_.retain(now_.storages[cell]);
    now_.kept_with_loss.push_back(now_.storages[cell]);
  }
}

void Engine::make_outputs(const OpSite& site, const OpProgram& op, Mode mode) {
  grow_buffer(op.forward_buffer);
  if (op.course.begin != op.course.end) return follow_course(site, op, mode);
  for (std::uint32_t i = op.scratch.begin; i < op.scratch.end; ++i) make_scratch(site, i);
  for (std::uint32_t i = op.made.begin; i < op.made.end; ++i) make_output(site, op, i, mode);
  use_workspace(op.workspace);
  run_launches(site, op.launches);
  for (std::uint32_t i = op.scratch.end; i > op.scratch.begin; --i) drop_scratch(site, i - 1);
}

void Engine::follow_course(const OpSite& site, const OpProgram& op, Mode mode) {
  const BlockProgram& program = order_.program(site);
  for (std::uint32_t i = op.course.begin; i < op.course.end; ++i) {
    const ProgramStep& step = program.steps[i];
    const std::uint32_t made = op.scratch.begin + step.tensor;
    if (step.kind == StepKind::product) {
      use_workspace(op.workspace);
    } else if (step.kind == StepKind::launch) {
      run_launches(site, program.launched[step.tensor]);
    } else if (step.kind == StepKind::free) {
      drop_scratch(site, made);
    } else if (made < op.scratch.end) {
      make_scratch(site, made);
    } else {
      make_output(site, op, made, mode);
    }
  }
}

void Engine::make_scratch(const OpSite& site, std::uint32_t index) {
  const MadeStorage& made = order_.program(site).made[index];
  now_.storages[order_.cell(site.instance, made.tensor)] =
      recorder_.allocate(made.bytes, label_of(site, made));
}

void Engine::drop_scratch(const OpSite& site, std::uint32_t index) {
  recorder_.release(
      now_.storages[order_.cell(site.instance, order_.program(site).made[index].tensor)]);
}

void Engine::make_output(const OpSite& site, const OpProgram& op, std::uint32_t index, Mode mode) {
  const MadeStorage& made = order_.program(site).made[index];
  const Cell cell = order_.cell(site.instance, made.tensor);
  const Label label = label_of(site, made);
  if ((made.for_backward && !(mode == Mode::gradients && op.trains)) ||
      (made.for_dropout && mode == Mode::evaluation)) {
    now_.storages[cell] = kNoStorage;
    return;
  }
  now_.storages[cell] = op.casts
                            ? use_cast(order_.cell(site.instance, op.parameter), made.bytes, label)
                            : recorder_.allocate(made.bytes, label);
  now_.held[cell] = made.held_by_graph && !keeps_graph_ ? 1 : made.held;
  if (now_.held[cell] > 1) recorder_.retain(now_.storages[cell]);
  if (!made.answered) return;
  recorder_.retain(now_.storages[cell]);
  answered_.push_back(now_.storages[cell]);
}

void Engine::run_launches(const OpSite& site, Slice launches) {
  const BlockProgram& program = order_.program(site);
  Label label;
  label.holding = Holding::temporaries;
  label.origin = origin_;
  label.place = site.instance;
  label.op = static_cast<std::uint16_t>(site.op);
  made_.clear();
  for (std::uint32_t i = launches.begin; i < launches.end; ++i) {
    const ScratchStep& step = program.launches[i];
    if (step.kind == ScratchStep::Kind::release) {
      recorder_.release(made_[static_cast<std::size_t>(step.block)]);
    } else {
      made_.push_back(recorder_.allocate(step.bytes, label));
    }
  }
}

void Engine::save(const OpSite& site, const OpProgram& op) {
  const BlockProgram& program = order_.program(site);
  for (std::uint32_t i = op.saved.begin; i < op.saved.end; ++i) {
    recorder_.retain(now_.storages[order_.storage_cell(site.instance, program.tensors[i])]);
  }
}

void Engine::end_references(const OpSite& site, const OpProgram& op) {
  const BlockProgram& program = order_.program(site);
  for (std::uint32_t i = op.attributes.begin; i < op.attributes.end; ++i) {
    recorder_.retain(now_.storages[order_.storage_cell(site.instance, program.tensors[i])]);
  }
  for (std::uint32_t i = op.released.begin; i < op.released.end; ++i) {
    const Cell cell = order_.storage_cell(site.instance, program.tensors[i]);
    // A recomputed block does not hold what it was given; the logits are the caller's to drop.
    if (now_.held[cell] == 0 || cell == order_.logits_cell()) continue;
    --now_.held[cell];
    recorder_.release(now_.storages[cell]);
  }
  name_attributes(site, op);
}

/// Autocast's copy of a parameter: made at its first use in an autocast context, and held by the
/// context's cache.
StorageId Engine::use_cast(std::uint32_t parameter, std::int64_t bytes, const Label& label) {
  StorageId& cast = parameters_[parameter].cast;
  if (cast == kNoStorage) {
    cast = recorder_.allocate(bytes, label);
    cast_.push_back(parameter);
  }
  recorder_.retain(cast);
  return cast;
}

void Engine::end_autocast() {
  for (const std::uint32_t parameter : cast_) {
    recorder_.release(parameters_[parameter].cast);
    parameters_[parameter].cast = kNoStorage;
  }
  cast_.clear();
}

/// cublasLt is called through cuBLAS's handle, whose workspace comes first.
void Engine::use_workspace(Workspace workspace) {
  if (workspace == Workspace::none) return;
  if (workspace == Workspace::transformer_engine) return use_workspace_of_process();
  use_workspace(LoopTensor::cublas_workspace, settings_.workspaces.cublas);
  if (workspace != Workspace::cublas) {
    use_workspace(LoopTensor::cublas_lt_workspace, settings_.workspaces.cublas_lt);
  }
}

void Engine::use_workspace(LoopTensor workspace, std::int64_t bytes) {
  auto& made = workspaces_[static_cast<std::size_t>(thread_)];
  bool& known = made[workspace == LoopTensor::cublas_lt_workspace ? 1 : 0];
  if (known) return;
  known = true;
  Label label;
  label.holding = Holding::workspaces;
  label.tensor = static_cast<std::uint16_t>(workspace);
  recorder_.allocate(bytes, label);
}

Label Engine::label_of(const OpSite& site, const MadeStorage& made) const {
  Label label;
  label.holding = made.holding;
  label.origin = origin_;
  label.place = site.instance;
  label.op = static_cast<std::uint16_t>(site.op);
  label.tensor = static_cast<std::uint16_t>(made.tensor);
  return label;
}

}  // namespace memest
