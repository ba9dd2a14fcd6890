#include "memory/engine/checkpoints.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "memory/engine/sites.hpp"

namespace memest {
namespace {

/// The ops of one block instance in ForwardOrder::sites().
struct Stretch {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  bool layer = false;
};

std::vector<Stretch> stretches_of(const Graph& graph, const ForwardOrder& order) {
  std::vector<Stretch> stretches;
  std::uint32_t begin = 0;
  for (const BlockInstance& instance : order.instances()) {
    const Block& block = graph.blocks[instance.block];
    const auto end = begin + static_cast<std::uint32_t>(block.ops.size());
    stretches.push_back({begin, end, block.checkpointable});
    begin = end;
  }
  return stretches;
}

Checkpoint checkpoint_of(const ForwardOrder& order, std::uint32_t begin, std::uint32_t end,
                         std::vector<Cell> inputs) {
  Checkpoint checkpoint{begin, end, end, end, std::move(inputs), 0};
  for (std::uint32_t i = begin; i < end; ++i) {
    if (!order.op(order.sites()[i]).keeps) continue;
    if (checkpoint.first_kept == end) checkpoint.first_kept = i;
    checkpoint.last_kept = i;
  }
  return checkpoint;
}

std::vector<Checkpoint> by_layers(const Graph& graph, const ForwardOrder& order,
                                  std::int64_t length) {
  std::vector<Checkpoint> list;
  const std::vector<Stretch> stretches = stretches_of(graph, order);
  for (std::size_t i = 0; i < stretches.size();) {
    if (!stretches[i].layer) {
      ++i;
      continue;
    }
    std::uint32_t begin = stretches[i].begin;
    while (order.op(order.sites()[begin]).by_caller) ++begin;
    std::uint32_t end = begin;
    // The first layer's arguments, and those of later layers beside the residual stream (layers of
    // two kinds read two tables).
    std::vector<Cell> inputs = order.arguments_of(graph, begin);
    for (std::int64_t n = 0; n < length && i < stretches.size() && stretches[i].layer; ++n, ++i) {
      end = stretches[i].end;
      const std::vector<Cell> more = order.arguments_of(graph, stretches[i].begin);
      for (std::size_t k = 1; k < more.size(); ++k) {
        if (std::find(inputs.begin(), inputs.end(), more[k]) == inputs.end()) {
          inputs.push_back(more[k]);
        }
      }
    }
    list.push_back(checkpoint_of(order, begin, end, std::move(inputs)));
  }
  return list;
}

/// Around the ops of a layer that `inside` tells, which stand together.
std::optional<Checkpoint> around(const Graph& graph, const ForwardOrder& order,
                                 const Stretch& layer, bool Op::*inside) {
  std::optional<std::uint32_t> begin;
  std::uint32_t end = 0;
  for (std::uint32_t i = layer.begin; i < layer.end; ++i) {
    const OpSite& site = order.sites()[i];
    const Block& block = graph.blocks[order.instances()[site.instance].block];
    if (!(block.ops[site.op].*inside)) continue;
    if (!begin) begin = i;
    end = i + 1;
  }
  if (!begin) return std::nullopt;
  return checkpoint_of(order, *begin, end, order.inputs_of(graph, *begin, end));
}

/// Around the parts of every layer: attention comes first.
std::vector<Checkpoint> around_parts(const Graph& graph, const ForwardOrder& order,
                                     const SelectiveRecompute& parts) {
  std::vector<Checkpoint> list;
  for (const Stretch& stretch : stretches_of(graph, order)) {
    if (!stretch.layer) continue;
    const auto add = [&](bool chosen, bool Op::*inside) {
      if (!chosen) return;
      if (auto checkpoint = around(graph, order, stretch, inside)) {
        list.push_back(*std::move(checkpoint));
      }
    };
    add(parts.attention_core, &Op::attention_core);
    add(parts.feed_forward, &Op::feed_forward);
  }
  return list;
}

/// The layers of each stage, or the first of them.
std::vector<Checkpoint> by_stages(const Graph& graph, const ForwardOrder& order,
                                  const FullRecompute& full) {
  const CheckpointPlan plan = checkpoint_plan_of(full, CheckpointRule::megatron, graph.layers());
  std::vector<Checkpoint> list;
  const std::vector<Stretch> stretches = stretches_of(graph, order);
  for (const StageSites& stage : order.stages()) {
    std::int64_t layer = 0;
    for (const Stretch& stretch : stretches) {
      if (!stretch.layer || stretch.begin < stage.begin || stretch.end > stage.end) continue;
      const std::int64_t index = layer++;
      if (!plan.runs_again(index)) continue;
      // TransformerBlock._checkpointed_forward: "uniform" goes over groups of recompute_num_layers,
      // "block" over the first so many layers of the stage.
      if (index % plan.length != 0) {
        Checkpoint& open = list.back();
        open = checkpoint_of(order, open.begin, stretch.end, std::move(open.inputs));
        continue;
      }
      list.push_back(checkpoint_of(order, stretch.begin, stretch.end,
                                   order.arguments_of(graph, stretch.begin)));
    }
  }
  for (Checkpoint& checkpoint : list) {
    const std::uint32_t instance = order.sites()[checkpoint.begin].instance;
    const Block& block = graph.blocks[order.instances()[instance].block];
    checkpoint.input_bytes = block.tensors[block.input].bytes().bytes(graph.sizes).value();
  }
  return list;
}

bool has_compiled_layers(const Graph& graph) {
  return std::any_of(graph.blocks.begin(), graph.blocks.end(),
                     [](const Block& block) { return block.checkpointable && block.compiled; });
}

/// Compiled with its layer a selective checkpoint computes each value again before the first that
/// reads it: what follows the attention that is kept, and when the gradients come there, the rest.
std::vector<Checkpoint> cut_behind_attention(const Graph& graph, const ForwardOrder& order,
                                             std::vector<Checkpoint> layers) {
  std::vector<Checkpoint> halves;
  for (Checkpoint& layer : layers) {
    std::uint32_t cut = layer.begin;
    for (std::uint32_t i = layer.begin; i < layer.end; ++i) {
      const OpSite& site = order.sites()[i];
      const Op& op = graph.blocks[order.instances()[site.instance].block].ops[site.op];
      if (op.kept_selectively && op.kind == OpKind::attention) cut = i + 1;
    }
    if (cut > layer.begin) {
      halves.push_back(checkpoint_of(order, layer.begin, cut, std::move(layer.inputs)));
    }
    halves.push_back(checkpoint_of(order, cut, layer.end, order.inputs_of(graph, cut, layer.end)));
  }
  return halves;
}

/// Layer by layer, each recomputed to its end (torchtitan/distributed/activation_checkpoint.py).
Checkpoints around_layers(const Graph& graph, const ForwardOrder& order,
                          const Recompute& recompute) {
  if (std::holds_alternative<NoRecompute>(recompute)) return {};
  std::vector<Checkpoint> layers = by_layers(graph, order, 1);
  Checkpoints checkpoints;
  checkpoints.stops_early = has_compiled_layers(graph);
  checkpoints.keeps_selectively = std::holds_alternative<SelectiveRecompute>(recompute);
  if (checkpoints.keeps_selectively && checkpoints.stops_early) {
    checkpoints.list = cut_behind_attention(graph, order, std::move(layers));
    return checkpoints;
  }
  const CheckpointPlan plan = checkpoint_plan_of(recompute, CheckpointRule::layers, graph.layers());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (plan.runs_again(static_cast<std::int64_t>(i))) {
      checkpoints.list.push_back(std::move(layers[i]));
    }
  }
  return checkpoints;
}

Checkpoints all_checkpoints_of(const Graph& graph, const ForwardOrder& order,
                               const Recompute& recompute, CheckpointRule rule) {
  if (rule == CheckpointRule::layers) return around_layers(graph, order, recompute);
  if (const auto* parts = std::get_if<SelectiveRecompute>(&recompute)) {
    Checkpoints around;
    around.list = around_parts(graph, order, *parts);
    return around;
  }
  const std::int64_t length = checkpoint_plan_of(recompute, rule, graph.layers()).length;
  if (length == 0) return {};
  Checkpoints checkpoints{by_layers(graph, order, length), is_reentrant(recompute)};
  checkpoints.stops_early = !has_compiled_layers(graph);
  return checkpoints;
}

}  // namespace

/// The hooks of what is saved hold a checkpoint's inputs (torch/utils/checkpoint.py, PyTorch 2.11,
/// _CheckpointFrame): where nothing is saved, before the first gradient, nobody does.
Checkpoints checkpoints_of(const Graph& graph, const ForwardOrder& order,
                           const Recompute& recompute, CheckpointRule rule) {
  Checkpoints checkpoints = all_checkpoints_of(graph, order, recompute, rule);
  if (checkpoints.reentrant) return checkpoints;
  std::erase_if(checkpoints.list, [](const Checkpoint& one) { return one.first_kept == one.end; });
  return checkpoints;
}

Checkpoints megatron_checkpoints_of(const Graph& graph, const ForwardOrder& order,
                                    const Recompute& recompute, std::int64_t ranks) {
  Checkpoints checkpoints = {{}, true, true};
  if (const auto* parts = std::get_if<SelectiveRecompute>(&recompute)) {
    checkpoints.list = around_parts(graph, order, *parts);
  } else if (const auto* full = std::get_if<FullRecompute>(&recompute)) {
    checkpoints.list = by_stages(graph, order, *full);
    if (full->distribute) checkpoints.shares = ranks;
  }
  return checkpoints;
}

}  // namespace memest
