#include "memory/engine/split_backward.hpp"

#include <algorithm>
#include <utility>

#include "memory/engine/backward_pass.hpp"

namespace memest {
namespace {

/// A node lives until the last group is done that one behind it, or itself, belongs to.
void find_ends(const ForwardOrder& order, const StageSites& sites, SplitBackward& plan) {
  std::vector<std::size_t> last(order.cells(), 0);  // by cell, of nodes that read it
  for (std::uint32_t i = sites.end; i > sites.begin; --i) {
    const OpSite& site = order.sites()[i - 1];
    const BlockProgram& program = order.program(site);
    const OpProgram& op = order.op(site);
    if (!op.trains) continue;
    const auto own = std::find_if(plan.groups.begin(), plan.groups.end(),
                                  [i](const auto& group) { return group.site == i - 1; });
    const bool in_group = own != plan.groups.end();
    std::size_t end =
        in_group ? static_cast<std::size_t>(own - plan.groups.begin()) + 1 : std::size_t{0};
    for (std::uint32_t k = op.outputs.begin; k < op.outputs.end; ++k) {
      end = std::max(end, last[order.cell(site.instance, program.tensors[k])]);
    }
    for (std::uint32_t k = op.handed.begin; k < op.handed.end; ++k) {
      if (program.handed[k].to_parameter) continue;
      std::size_t& reached = last[order.cell(site.instance, program.handed[k].input)];
      reached = std::max(reached, end);
    }
    if (!in_group) plan.ending[end].push_back(i - 1);
  }
}

}  // namespace

SplitBackward plan_split(const ForwardOrder& order, std::size_t stage,
                         const std::vector<std::uint32_t>& uses) {
  const StageSites& sites = order.stages()[stage];
  SplitBackward plan;
  for (std::uint32_t i = sites.begin; i < sites.end; ++i) {
    const OpSite& site = order.sites()[i];
    const BlockProgram& program = order.program(site);
    const OpProgram& op = order.op(site);
    for (std::uint32_t k = op.handed.begin; k < op.handed.end; ++k) {
      const HandedGradient& handed = program.handed[k];
      if (!handed.to_parameter) continue;
      plan.groups.push_back({i, order.cell(site.instance, handed.input), handed.tensor});
    }
  }
  const auto place = [&uses](const SplitBackward::Group& group) {
    return std::find(uses.begin(), uses.end(), group.use);
  };
  std::stable_sort(plan.groups.begin(), plan.groups.end(),
                   [&](const auto& left, const auto& right) { return place(left) < place(right); });
  plan.ending.resize(plan.groups.size() + 1);
  find_ends(order, sites, plan);
  return plan;
}

void BackwardPass::end_nodes(const std::vector<std::uint32_t>& sites) {
  Node node;
  for (const std::uint32_t i : sites) {
    take_up(node, order_.sites()[i]);
    drop_saved(node);
  }
}

/// Whether a tensor of the node's backward is its parameter's gradient, or scratch beside it.
bool BackwardPass::is_of_weights(const Node& node, std::uint32_t tensor) {
  const auto begin = node.program->handed.begin() + node.op->handed.begin;
  const auto end = node.program->handed.begin() + node.op->handed.end;
  const bool has_parameter =
      std::any_of(begin, end, [](const HandedGradient& handed) { return handed.to_parameter; });
  if (has_parameter && tensor >= node.op->launched) return true;
  return std::any_of(begin, end, [tensor](const HandedGradient& handed) {
    return handed.to_parameter && handed.tensor == tensor;
  });
}

void BackwardPass::run_part(Node& node, BackwardPart part) {
  const OpProgram& op = *node.op;
  node.made.assign(op.gradients.end - op.gradients.begin, kNoStorage);
  for (std::uint32_t i = op.steps.begin; i < op.steps.end; ++i) {
    const bool of_weights = is_of_weights(node, node.program->steps[i].tensor);
    if (of_weights == (part == BackwardPart::weights)) run_steps(node, {i, i + 1});
  }
}

/// _backward.py, stage_backward_input: hooks hold what comes to the nodes of parameters.
void BackwardPass::run_inputs_part(Node& node) {
  const auto here =
      std::find_if(split_->groups.begin(), split_->groups.end(),
                   [&](const auto& one) { return order_.sites()[one.site] == *node.site; });
  if (here != split_->groups.end()) {
    (*kept_)[static_cast<std::size_t>(here - split_->groups.begin())] = node.incoming.storage;
    recorder_.retain(node.incoming.storage);
  }
  run_part(node, BackwardPart::inputs);
  drop_incoming(node);
  hand_gradients(node, kNoStorage);
}

/// The gradient from which the second part runs a node again.
StorageId BackwardPass::copy_of(const OpSite& site, StorageId gradient) {
  Label label;
  label.holding = Holding::passing_gradients;
  label.origin = Origin::backward;
  label.place = site.instance;
  label.op = static_cast<std::uint16_t>(site.op);
  label.tensor = static_cast<std::uint16_t>(order_.program(site).made_gradients.front().like);
  return recorder_.allocate(recorder_.timeline().storages[gradient].bytes, label);
}

/// _backward.py, stage_backward_weight. A gradient that is added to an existing one is freed when
/// the next one has been made.
void BackwardPass::run_weights(const SplitBackward& split, std::vector<StorageId>& kept) {
  Node node;
  HeldStorage added;
  HeldStorage copy;  // goes before what was added
  for (std::size_t i = 0; i < split.groups.size(); ++i) {
    const auto& group = split.groups[i];
    take_up(node, order_.sites()[group.site]);
    // stage_backward_weight: sum() begins with 0, and so a sum of one gradient is a new tensor.
    copy = recorder_.adopt(copy_of(*node.site, kept[i]));
    run_part(node, BackwardPart::weights);
    drop_saved(node);
    added.drop();
    // del param_group["grads"], before the weight gets its gradient.
    recorder_.release(std::exchange(kept[i], kNoStorage));
    added = recorder_.adopt(adopt(group.use, node.made[group.tensor]));
    end_nodes(split.ending[i + 1]);
  }
}

/// Answers what is added to a gradient that is there.
StorageId BackwardPass::adopt(std::uint32_t parameter, StorageId gradient) {
  BlockHooks& hooks = *engine_.settings.hooks;
  if (hooks.has_gradient(parameter)) return gradient;
  hooks.take_gradient(parameter, gradient);
  return kNoStorage;
}

}  // namespace memest
