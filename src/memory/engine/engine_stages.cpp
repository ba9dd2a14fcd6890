// Stages of a pipeline, many micro-steps in flight, and what a process keeps for all of them.
#include <algorithm>

#include "memory/engine/engine.hpp"

namespace memest {

void Engine::bring(std::string_view name, StorageId storage) {
  for (const Cell cell : order_.cells_named(name)) now_.storages[cell] = storage;
}

StorageId Engine::forward_stage(std::size_t stage, StorageId input,
                                const std::shared_ptr<void>& owner) {
  const StageSites& sites = order_.stages()[stage];
  thread_ = Thread::forward;
  origin_ = Origin::forward;
  now_.inputs.clear();
  if (input != kNoStorage) now_.storages[sites.input] = input;
  input_owner_ = owner;
  run_sites(sites.begin, end_of_model(sites));
  input_owner_.reset();
  return hand_over_answer(stage);
}

/// Before the loss where the program takes it.
std::uint32_t Engine::end_of_model(const StageSites& stage) const {
  return settings_.loss_outside ? stage.loss : stage.end;
}

StorageId Engine::hand_over_answer(std::size_t stage) {
  const StageSites& sites = order_.stages()[stage];
  end_forward();
  if (end_of_model(sites) < sites.end) return logits();
  now_.held[sites.output] = 0;
  return now_.storages[sites.output];
}

StorageId Engine::take_loss() {
  const StageSites& last = order_.stages().back();
  run_sites(last.loss, last.end);
  end_forward();
  return loss();
}

StorageId Engine::evaluate_stage(std::size_t stage, StorageId input) {
  const StageSites& sites = order_.stages()[stage];
  thread_ = Thread::forward;
  origin_ = Origin::forward;
  if (input != kNoStorage) now_.storages[sites.input] = input;
  for (std::uint32_t i = sites.begin; i < end_of_model(sites); ++i) {
    const OpSite& site = order_.sites()[i];
    hook_before_forward(site);
    evaluate_site(site);
    hook_after_forward(site);
  }
  return hand_over_answer(stage);
}

StorageId Engine::backward_stage(std::size_t stage, StorageId gradient) {
  const StageSites& sites = order_.stages()[stage];
  thread_ = Thread::autograd;
  now_.slots[sites.output] = {gradient, Reach::directly, true};
  run_sites_back(sites.begin, sites.end);
  StorageId of_input = kNoStorage;
  for (const StorageId leaf : take_kept_with_loss()) {
    if (leaf != kNoStorage) of_input = leaf;
  }
  return of_input;
}

FlightState Engine::fresh() const {
  FlightState state;
  state.storages.assign(order_.cells(), kNoStorage);
  state.held.assign(order_.cells(), 0);
  state.slots.resize(order_.cells());
  state.inputs_of.resize(checkpoints_.list.size());
  state.selected.assign(checkpoints_.keeps_selectively ? order_.cells() : 0, kNoStorage);
  return state;
}

/// torch.empty where it is too small; the old one goes when the new one has its name.
void Engine::grow_buffer(std::int64_t bytes) {
  if (bytes <= buffer_bytes_) return;
  Label label;
  label.holding = Holding::workspaces;
  label.tensor = static_cast<std::uint16_t>(LoopTensor::growing_buffer);
  buffer_bytes_ = bytes;
  recorder_.release(std::exchange(buffer_, recorder_.allocate(bytes, label)));
}

void Engine::use_workspace_of_process() {
  if (std::exchange(has_process_workspace_, true)) return;
  Label label;
  label.holding = Holding::workspaces;
  label.tensor = static_cast<std::uint16_t>(LoopTensor::transformer_engine_workspace);
  recorder_.allocate(settings_.workspaces.transformer_engine, label);
}

void Engine::make_unread(const UnreadGradient& gradient) {
  const auto known = std::find(unread_.begin(), unread_.end(), gradient.shape);
  if (known != unread_.end()) return;
  unread_.push_back(gradient.shape);
  Label label;
  label.holding = Holding::gradients;
  label.tensor = static_cast<std::uint16_t>(LoopTensor::unread_gradient);
  recorder_.allocate(gradient.bytes, label);
}

/// The old ones go when the new ones, which are held already, have their names.
void Engine::name_attributes(const OpSite& site, const OpProgram& op) {
  const BlockProgram& program = order_.program(site);
  for (std::uint32_t i = op.attributes.begin; i < op.attributes.end; ++i) {
    const Cell cell = order_.storage_cell(site.instance, program.tensors[i]);
    const auto known = std::find_if(attributes_.begin(), attributes_.end(),
                                    [cell](const auto& named) { return named.first == cell; });
    if (known == attributes_.end()) {
      attributes_.emplace_back(cell, now_.storages[cell]);
    } else {
      recorder_.release(std::exchange(known->second, now_.storages[cell]));
    }
    const bool has_graph = i == op.attributes.begin && op.names_graph;
    if (!has_graph || graph_inputs_.empty()) continue;
    for (GraphInput& input : graph_inputs_) {
      if (input.last.instance != site.instance || input.last.op != site.op) continue;
      if (!input.checkpoint) input.owner = input_owner_;
      for (const StorageId leaf : std::exchange(input.leaves, {})) recorder_.release(leaf);
    }
  }
}

/// An old graph goes with the last attribute that has it.
void Engine::find_graph_inputs() {
  const auto add = [this](std::uint32_t begin, std::uint32_t end, std::optional<std::size_t> of) {
    const auto& list = checkpoints_.list;
    for (std::uint32_t i = end; i > begin; --i) {
      const OpSite& site = order_.sites()[i - 1];
      if (!order_.op(site).names_graph) continue;
      const bool again = std::any_of(list.begin(), list.end(), [i](const Checkpoint& checkpoint) {
        return checkpoint.begin < i && i <= checkpoint.end;
      });
      if (again == of.has_value()) graph_inputs_.push_back({site, of, nullptr, {}});
      return;
    }
  };
  for (std::size_t i = 0; i < checkpoints_.list.size(); ++i) {
    add(checkpoints_.list[i].begin, checkpoints_.list[i].end, i);
  }
  for (const StageSites& stage : order_.stages()) add(stage.begin, stage.end, std::nullopt);
}

/// The graph of what ran again begins with the checkpoint's inputs, detached, which keep their
/// gradients.
void Engine::keep_graph_leaves(std::size_t checkpoint) {
  const Cell first = checkpoints_.list[checkpoint].inputs.front();
  for (GraphInput& input : graph_inputs_) {
    if (input.checkpoint != checkpoint) continue;
    input.leaves = {now_.slots[first].storage, now_.inputs[now_.inputs_of[checkpoint].begin]};
    for (const StorageId leaf : input.leaves) recorder_.retain(leaf);
  }
}

bool Engine::runs(const OpSite& site, const OpProgram& op) {
  if (!op.once) return true;
  const bool ran = std::any_of(ran_once_.begin(), ran_once_.end(), [&](const OpSite& other) {
    return other.instance == site.instance && other.op == site.op;
  });
  if (!ran) ran_once_.push_back(site);
  return !ran;
}

}  // namespace memest
