#include "memory/engine/engine.hpp"

#include <cstdint>
#include <utility>

#include "memory/engine/backward_pass.hpp"
#include "memory/engine/forward_pass.hpp"

namespace memest {
namespace {

/// Cells of what an op without a backward makes and an op with one reads: a gradient ends there.
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

EngineState::EngineState(const Graph& graph, const ForwardOrder& forward_order,
                         const EngineSettings& engine_settings, Recorder& events)
    : order(forward_order),
      settings(engine_settings),
      recorder(events),
      checkpoints(checkpoints_of(graph, forward_order, engine_settings.checkpoints,
                                 engine_settings.tensor_ranks)),
      leaves(leaves_of(forward_order)),
      now(fresh_flight(forward_order, checkpoints)),
      gradients(forward_order.parameters().size()),
      autocast(forward_order.parameters().size(), events),
      process_buffers(engine_settings.buffers != nullptr
                          ? engine_settings.buffers
                          : std::make_shared<LibraryBuffers>(engine_settings.workspaces, events)),
      buffers(*process_buffers),
      attributes(forward_order, checkpoints, events) {
  if (engine_settings.offloaded_layers == 0) return;
  std::vector<bool> is_layer;
  for (const BlockInstance& instance : forward_order.instances()) {
    is_layer.push_back(graph.blocks[instance.block].checkpointable);
  }
  offload.emplace(is_layer, engine_settings.offloaded_layers, events);
}

FlightState fresh_flight(const ForwardOrder& order, const Checkpoints& checkpoints) {
  FlightState state;
  state.storages.assign(order.cells(), kNoStorage);
  state.held.assign(order.cells(), 0);
  state.slots.resize(order.cells());
  state.inputs_of.resize(checkpoints.list.size());
  state.remade.resize(checkpoints.remade.size());
  state.selected.assign(checkpoints.plan.selects ? order.cells() : 0, kNoStorage);
  return state;
}

Slice Engine::all_sites() const { return {0, static_cast<std::uint32_t>(order().sites().size())}; }

void Engine::begin_forward(StorageId batch, StorageId labels) {
  state_.now.inputs.clear();
  for (const Cell cell : order().batch_cells()) state_.now.storages[cell] = batch;
  for (const Cell cell : order().label_cells()) state_.now.storages[cell] = labels;
}

void Engine::end_forward() {
  state_.now.held[order().logits_cell()] = 0;
  state_.now.held[order().loss_cell()] = 0;
}

void Engine::forward(StorageId batch, StorageId labels) {
  begin_forward(batch, labels);
  ForwardPass(state_, {}).run(all_sites());
  end_forward();
}

void Engine::forward_model(StorageId batch, StorageId labels) {
  begin_forward(batch, labels);
  ForwardPass(state_, {}).run(model_of(order().stages().front()));
  end_forward();
}

void Engine::evaluate(StorageId batch, StorageId labels) {
  begin_forward(batch, labels);
  ForwardSettings beneath_wrapper;
  beneath_wrapper.wrapped = false;
  ForwardPass(state_, beneath_wrapper).evaluate(all_sites());
  end_forward();
}

StorageId Engine::evaluate_to_last(StorageId batch, StorageId labels) {
  begin_forward(batch, labels);
  const Slice sites = all_sites();
  const std::uint32_t last = order().sites().back().instance;
  std::uint32_t end = sites.end;
  while (order().sites()[end - 1].instance == last) --end;
  ForwardPass(state_, {}).evaluate(Slice{sites.begin, end});
  const Cell output = order().output_cell(last - 1);
  const StorageId storage = state_.now.storages[output];
  for (; state_.now.held[output] > 1; --state_.now.held[output]) {
    state_.recorder.release(storage);
  }
  state_.now.held[output] = 0;
  return storage;
}

void Engine::bind_input(std::string_view name, StorageId storage) {
  for (const Cell cell : order().cells_named(name)) state_.now.storages[cell] = storage;
}

void Engine::hand_in(std::string_view name, StorageId storage) {
  bind_input(name, storage);
  for (const Cell cell : order().cells_named(name)) state_.now.held[cell] = 1;
}

void Engine::hand_in(std::uint32_t instance, TensorId tensor, StorageId storage) {
  const Cell cell = order().cell(instance, tensor);
  state_.now.storages[cell] = storage;
  state_.now.held[cell] = 1;
}

StorageId Engine::forward_stage(std::size_t stage, StorageId input,
                                const std::shared_ptr<void>& owner) {
  const StageSites& sites = order().stages()[stage];
  state_.now.inputs.clear();
  if (input != kNoStorage) state_.now.storages[sites.input] = input;
  ForwardSettings settings;
  settings.owner = owner;
  ForwardPass(state_, settings).run(model_of(sites));
  return hand_over_answer(stage);
}

Slice Engine::model_of(const StageSites& stage) const {
  return {stage.begin, state_.settings.loss_outside ? stage.loss : stage.end};
}

StorageId Engine::hand_over_answer(std::size_t stage) {
  const StageSites& sites = order().stages()[stage];
  end_forward();
  if (model_of(sites).end < sites.end) return logits();
  state_.now.held[sites.output] = 0;
  return state_.now.storages[sites.output];
}

void Engine::begin_loss() {
  const StageSites& last = order().stages().back();
  ForwardPass(state_, {}).run({last.loss, last.loss + 1});
  loss_begun_ = true;
}

StorageId Engine::take_loss() {
  const StageSites& last = order().stages().back();
  const std::uint32_t first = std::exchange(loss_begun_, false) ? last.loss + 1 : last.loss;
  ForwardPass(state_, {}).run({first, last.end});
  end_forward();
  return loss();
}

StorageId Engine::evaluate_stage(std::size_t stage, StorageId input) {
  const StageSites& sites = order().stages()[stage];
  if (input != kNoStorage) state_.now.storages[sites.input] = input;
  ForwardPass(state_, {}).evaluate(model_of(sites));
  return hand_over_answer(stage);
}

void Engine::backward(StorageId loss_gradient) {
  state_.now.slots[order().loss_cell()] = {loss_gradient, Reach::directly, true};
  BackwardPass(state_).run(all_sites());
}

StorageId Engine::backward_stage(std::size_t stage, StorageId gradient) {
  const StageSites& sites = order().stages()[stage];
  state_.now.slots[sites.output] = {gradient, Reach::directly, true};
  BackwardPass(state_).run({sites.begin, sites.end});
  return take_gradient_of_input();
}

std::vector<StorageId> Engine::backward_first_stage(std::size_t stage, StorageId gradient) {
  state_.now.slots[order().stages()[stage].output] = {gradient, Reach::directly, true};
  BackwardPass(state_).run({order().stages()[stage].begin, order().stages()[stage].end});
  return take_kept_with_loss();
}

StorageId Engine::take_gradient_of_input() {
  const std::vector<StorageId> kept = take_kept_with_loss();
  // Behind what the stage's graph names stand the gradients of its leaves.
  const std::size_t leaves = kept.size() - state_.leaves.size();
  StorageId of_input = kNoStorage;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] == kNoStorage) continue;
    if (i < leaves) {
      state_.recorder.release(kept[i]);
    } else {
      of_input = kept[i];
    }
  }
  return of_input;
}

StorageId Engine::backward_inputs(const SplitBackward& plan, std::size_t stage, StorageId gradient,
                                  std::vector<StorageId>& kept) {
  const StageSites& sites = order().stages()[stage];
  kept.assign(plan.groups.size(), kNoStorage);
  state_.now.slots[sites.output] = {gradient, Reach::directly, true};
  BackwardPass pass(state_, plan, kept);
  pass.run({sites.begin, sites.end});
  pass.end_nodes(plan.ending.front());
  return take_gradient_of_input();
}

void Engine::backward_weights(const SplitBackward& plan, std::vector<StorageId>& kept) {
  BackwardPass(state_).run_weights(plan, kept);
}

void Engine::drop_gradients() {
  if (hooks() != nullptr) hooks()->drop_gradients();
  for (std::size_t i = 0; i < state_.gradients.size(); ++i) {
    if (order().parameters()[i].unstepped) continue;
    state_.recorder.release(std::exchange(state_.gradients[i].storage, kNoStorage));
  }
}

}  // namespace memest
