// A stage's backward in two parts, as torch.distributed.pipelining runs it (PyTorch 2.11,
// _backward.py). The first makes the input's gradient and keeps all that was saved, and beside it
// the gradient that came to every node of a parameter. The second runs these nodes again, one after
// another in the order of Module.parameters(), each from a copy of that gradient. Tensors that the
// other nodes saved go with the last of those that lead to them.
#include <algorithm>
#include <utility>

#include "memory/engine/engine.hpp"

namespace memest {

SplitBackward Engine::plan_split(std::size_t stage, const std::vector<std::uint32_t>& uses) const {
  const StageSites& sites = order_.stages()[stage];
  SplitBackward plan;
  for (std::uint32_t i = sites.begin; i < sites.end; ++i) {
    const BlockProgram& program = order_.program(order_.sites()[i]);
    const OpProgram& op = order_.op(order_.sites()[i]);
    for (std::uint32_t k = op.handed.begin; k < op.handed.end; ++k) {
      if (!program.handed[k].to_parameter) continue;
      plan.groups.push_back({i, order_.cell(order_.sites()[i].instance, program.handed[k].input),
                             program.handed[k].tensor});
    }
  }
  const auto place = [&uses](const SplitBackward::Group& group) {
    return std::find(uses.begin(), uses.end(), group.use);
  };
  std::stable_sort(plan.groups.begin(), plan.groups.end(),
                   [&](const auto& left, const auto& right) { return place(left) < place(right); });
  plan.ending.resize(plan.groups.size() + 1);
  find_ends_of_split(sites, plan);
  return plan;
}

/// A node lives until the last group is done that one behind it, or itself, belongs to.
void Engine::find_ends_of_split(const StageSites& sites, SplitBackward& plan) const {
  std::vector<std::size_t> last(order_.cells(), 0);  // by cell, of nodes that read it
  for (std::uint32_t i = sites.end; i > sites.begin; --i) {
    const OpSite& site = order_.sites()[i - 1];
    const BlockProgram& program = order_.program(site);
    const OpProgram& op = order_.op(site);
    if (!op.trains) continue;
    const auto own = std::find_if(plan.groups.begin(), plan.groups.end(),
                                  [i](const auto& group) { return group.site == i - 1; });
    const bool in_group = own != plan.groups.end();
    std::size_t end =
        in_group ? static_cast<std::size_t>(own - plan.groups.begin()) + 1 : std::size_t{0};
    for (std::uint32_t k = op.outputs.begin; k < op.outputs.end; ++k) {
      end = std::max(end, last[order_.cell(site.instance, program.tensors[k])]);
    }
    for (std::uint32_t k = op.handed.begin; k < op.handed.end; ++k) {
      if (program.handed[k].to_parameter) continue;
      std::size_t& reached = last[order_.cell(site.instance, program.handed[k].input)];
      reached = std::max(reached, end);
    }
    if (!in_group) plan.ending[end].push_back(i - 1);
  }
}

StorageId Engine::backward_inputs(const SplitBackward& plan, std::size_t stage, StorageId gradient,
                                  std::vector<StorageId>& kept) {
  kept.assign(plan.groups.size(), kNoStorage);
  split_ = &plan;
  kept_ = &kept;
  const StorageId of_input = backward_stage(stage, gradient);
  split_ = nullptr;
  kept_ = nullptr;
  end_nodes(plan.ending.front());
  return of_input;
}

void Engine::end_nodes(const std::vector<std::uint32_t>& sites) {
  for (const std::uint32_t i : sites) drop_saved(order_.sites()[i], order_.op(order_.sites()[i]));
}

/// Whether a tensor of the node's backward is its parameter's gradient, or scratch beside it.
bool Engine::is_of_weights(const OpSite& site, const OpProgram& op, std::uint32_t tensor) const {
  const BlockProgram& program = order_.program(site);
  const auto begin = program.handed.begin() + op.handed.begin;
  const auto end = program.handed.begin() + op.handed.end;
  const bool has_parameter =
      std::any_of(begin, end, [](const HandedGradient& handed) { return handed.to_parameter; });
  if (has_parameter && tensor >= op.launched) return true;
  return std::any_of(begin, end, [tensor](const HandedGradient& handed) {
    return handed.to_parameter && handed.tensor == tensor;
  });
}

void Engine::run_part(const OpSite& site, const OpProgram& op, bool weights) {
  const BlockProgram& program = order_.program(site);
  made_.assign(op.gradients.end - op.gradients.begin, kNoStorage);
  for (std::uint32_t i = op.steps.begin; i < op.steps.end; ++i) {
    if (is_of_weights(site, op, program.steps[i].tensor) != weights) continue;
    run_steps(site, op, {i, i + 1});
  }
}

/// Hooks hold what comes to the nodes of parameters.
void Engine::run_inputs_part(const OpSite& site, const OpProgram& op,
                             const GradientSlot& incoming) {
  const auto here =
      std::find_if(split_->groups.begin(), split_->groups.end(), [&](const auto& one) {
        const OpSite& other = order_.sites()[one.site];
        return other.instance == site.instance && other.op == site.op;
      });
  if (here != split_->groups.end()) {
    (*kept_)[static_cast<std::size_t>(here - split_->groups.begin())] = incoming.storage;
    recorder_.retain(incoming.storage);
  }
  run_part(site, op, false);
  if (!op.hands_on) recorder_.release(incoming.storage);
  for (const StorageId storage : extra_incoming_) recorder_.release(storage);
  extra_incoming_.clear();
  hand_gradients(site, op, incoming, kNoStorage);
}

/// A gradient that is added to an existing one is released when the next one has been made.
void Engine::backward_weights(const SplitBackward& plan, std::vector<StorageId>& kept) {
  thread_ = Thread::autograd;
  StorageId copy = kNoStorage;
  StorageId added = kNoStorage;
  for (std::size_t i = 0; i < plan.groups.size(); ++i) {
    const auto& group = plan.groups[i];
    const OpSite& site = order_.sites()[group.site];
    Label label;
    label.holding = Holding::passing_gradients;
    label.origin = Origin::backward;
    label.place = site.instance;
    label.op = static_cast<std::uint16_t>(site.op);
    label.tensor = static_cast<std::uint16_t>(order_.program(site).made_gradients.front().like);
    const std::int64_t bytes = recorder_.timeline().storages[kept[i]].bytes;
    recorder_.release(std::exchange(copy, recorder_.allocate(bytes, label)));
    const OpProgram& op = order_.op(site);
    run_part(site, op, true);
    drop_saved(site, op);
    recorder_.release(std::exchange(added, kNoStorage));
    recorder_.release(std::exchange(kept[i], kNoStorage));
    added = adopt(group.use, made_[group.tensor]);
    end_nodes(plan.ending[i + 1]);
  }
  recorder_.release(copy);
  recorder_.release(added);
}

/// Answers what is added to a gradient that is there.
StorageId Engine::adopt(std::uint32_t parameter, StorageId gradient) {
  if (settings_.hooks->has_gradient(parameter)) return gradient;
  settings_.hooks->take_gradient(parameter, gradient);
  return kNoStorage;
}

}  // namespace memest
