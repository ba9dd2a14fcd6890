#include "memory/engine/checkpoints.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

/// The ops of one block in ForwardOrder::sites().
struct BlockOps {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// Those of a layer.
struct LayerOps : BlockOps {
  bool follows = false;  ///< the block before it is a layer of its stage too
};

/// The layers of each of a rank's stages; the whole model is one.
std::vector<std::vector<LayerOps>> layers_by_stage(const Graph& graph, const ForwardOrder& order) {
  std::vector<std::vector<LayerOps>> stages(order.stages().size());
  std::uint32_t begin = 0;
  std::size_t stage = 0;
  bool follows = false;
  for (const BlockInstance& instance : order.instances()) {
    const Block& block = graph.blocks[instance.block];
    while (begin >= order.stages()[stage].end) {
      ++stage;
      follows = false;
    }
    const auto end = begin + static_cast<std::uint32_t>(block.ops.size());
    if (block.checkpointable) stages[stage].push_back({{begin, end}, follows});
    follows = block.checkpointable;
    begin = end;
  }
  return stages;
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

/// Bytes of the input of the block at `site`.
std::int64_t input_bytes(const Graph& graph, const ForwardOrder& order, std::uint32_t site) {
  const Block& block = graph.blocks[order.instances()[order.sites()[site].instance].block];
  return block.tensors[block.input].bytes().bytes(graph.sizes).value();
}

/// Around layers that stand together. Its inputs are the first layer's arguments, and those of
/// later layers beside the residual stream: layers of two kinds read two tables.
Checkpoint around_layers(const Graph& graph, const ForwardOrder& order,
                         std::span<const LayerOps> layers) {
  std::uint32_t begin = layers.front().begin;
  while (order.op(order.sites()[begin]).by_caller) ++begin;
  std::vector<Cell> inputs = order.arguments_of(graph, begin);
  for (const LayerOps& layer : layers.subspan(1)) {
    const std::vector<Cell> more = order.arguments_of(graph, layer.begin);
    for (std::size_t k = 1; k < more.size(); ++k) {
      if (std::find(inputs.begin(), inputs.end(), more[k]) == inputs.end()) {
        inputs.push_back(more[k]);
      }
    }
  }
  Checkpoint checkpoint = checkpoint_of(order, begin, layers.back().end, std::move(inputs));
  checkpoint.input_bytes = input_bytes(graph, order, layers.front().begin);
  return checkpoint;
}

/// Around whole layers. Layers are counted within their stage; a checkpoint of several ends where
/// another block stands between them.
std::vector<Checkpoint> around_whole_layers(const Graph& graph, const ForwardOrder& order,
                                            const CheckpointPlan& plan) {
  std::vector<Checkpoint> list;
  for (const std::vector<LayerOps>& layers : layers_by_stage(graph, order)) {
    for (std::size_t i = 0; i < layers.size();) {
      std::size_t end = i + 1;
      const auto most = static_cast<std::size_t>(plan.length);
      while (end < layers.size() && layers[end].follows && end - i < most) ++end;
      if (plan.recomputes(static_cast<std::int64_t>(i))) {
        list.push_back(around_layers(graph, order, std::span(layers).subspan(i, end - i)));
      }
      i = end;
    }
  }
  return list;
}

/// Around the parts of layers; a block may have layers within.
class AroundParts {
 public:
  AroundParts(const Graph& graph, const ForwardOrder& order) : graph_(graph), order_(order) {}

  [[nodiscard]] std::vector<Checkpoint> list(const SelectiveRecompute& parts) && {
    std::uint32_t begin = 0;
    for (const BlockInstance& instance : order_.instances()) {
      const auto end = begin + static_cast<std::uint32_t>(graph_.blocks[instance.block].ops.size());
      const auto add = [&](bool chosen, bool LayerParts::* inside) {
        if (chosen) add_around({begin, end}, inside);
      };
      add(parts.attention_core, &LayerParts::attention_core);
      add(parts.feed_forward, &LayerParts::feed_forward);
      add(parts.experts, &LayerParts::experts);
      add(parts.shared_experts, &LayerParts::shared_experts);
      add(parts.predictions, &LayerParts::prediction);
      begin = end;
    }
    return std::move(list_);
  }

 private:
  /// Around each stretch of a block's ops that `inside` tells.
  void add_around(const BlockOps& block, bool LayerParts::* inside) {
    for (std::uint32_t i = block.begin; i < block.end; ++i) {
      const std::uint32_t begin = i;
      while (i < block.end && op(i).part_of.*inside) ++i;
      if (i == begin) continue;
      list_.push_back(checkpoint_of(order_, begin, i, order_.inputs_of(graph_, begin, i)));
    }
  }

  [[nodiscard]] const Op& op(std::uint32_t at) const {
    const OpSite& site = order_.sites()[at];
    return graph_.blocks[order_.instances()[site.instance].block].ops[site.op];
  }

  const Graph& graph_;
  const ForwardOrder& order_;
  std::vector<Checkpoint> list_;
};

/// Compiled with its layer a selective checkpoint computes each value again before the first that
/// reads it: what follows the attention that is kept, and when the gradients come there, the rest.
std::vector<Checkpoint> cut_behind_attention(const Graph& graph, const ForwardOrder& order,
                                             std::vector<Checkpoint> layers) {
  std::vector<Checkpoint> halves;
  for (Checkpoint& layer : layers) {
    std::optional<std::uint32_t> cut;
    for (std::uint32_t i = layer.begin; i < layer.end; ++i) {
      const OpSite& site = order.sites()[i];
      const Op& op = graph.blocks[order.instances()[site.instance].block].ops[site.op];
      if (op.kept_selectively && op.kind == OpKind::attention) cut = i + 1;
    }
    if (!cut) {
      halves.push_back(std::move(layer));
      continue;
    }
    halves.push_back(checkpoint_of(order, layer.begin, *cut, std::move(layer.inputs)));
    halves.push_back(
        checkpoint_of(order, *cut, layer.end, order.inputs_of(graph, *cut, layer.end)));
  }
  return halves;
}

std::vector<Checkpoint> list_of(const Graph& graph, const ForwardOrder& order,
                                const CheckpointPlan& plan) {
  std::vector<Checkpoint> list;
  if (plan.parts) list = AroundParts(graph, order).list(*plan.parts);
  if (plan.length > 0) {
    std::vector<Checkpoint> layers = around_whole_layers(graph, order, plan);
    const bool cuts = plan.selects && plan.stops_early;
    if (cuts) layers = cut_behind_attention(graph, order, std::move(layers));
    std::ranges::move(layers, std::back_inserter(list));
  }
  std::ranges::sort(list, {}, &Checkpoint::begin);
  return list;
}

/// Part by part of what the plan makes again: consecutive ops of a kind, up to the op that drops
/// it.
class RemadeResults {
 public:
  RemadeResults(const Graph& graph, const ForwardOrder& order, const SelectiveRecompute& parts)
      : graph_(graph), order_(order), parts_(parts) {}

  [[nodiscard]] std::vector<RemadeResult> list() const {
    std::vector<RemadeResult> list;
    const auto count = static_cast<std::uint32_t>(order_.sites().size());
    for (std::uint32_t i = 0; i < count;) {
      const Remade kind = op(i).remade;
      if (!remakes(parts_, kind)) {
        ++i;
        continue;
      }
      RemadeResult part;
      part.begin = i;
      while (i < count && op(i).remade == kind) ++i;
      part.end = i;
      part.behind = part.end;
      while (part.behind < count && op(part.behind).drops != kind) ++part.behind;
      expect(part.behind < count, "results that are made again were thrown away somewhere");
      describe(part);
      list.push_back(std::move(part));
    }
    return list;
  }

 private:
  [[nodiscard]] const Op& op(std::uint32_t at) const {
    const OpSite& site = order_.sites()[at];
    return graph_.blocks[order_.instances()[site.instance].block].ops[site.op];
  }

  void describe(RemadeResult& part) const {
    part.inputs = order_.inputs_of(graph_, part.begin, part.end);
    std::vector<Cell> made;
    for (std::uint32_t i = part.begin; i < part.end; ++i) {
      const OpSite& site = order_.sites()[i];
      const OpProgram& program = order_.op(site);
      for (std::uint32_t k = program.handed.begin; k < program.handed.end; ++k) {
        const HandedGradient& handed = order_.program(site).handed[k];
        const Cell target = order_.cell(site.instance, handed.input);
        const bool inside = std::find(made.begin(), made.end(), target) != made.end();
        if (!handed.to_parameter && !inside) part.leaving.push_back({i, k, target});
      }
      for (const TensorId id : op(i).outputs) made.push_back(order_.cell(site.instance, id));
      if (!op(i).answers_part) continue;
      const TensorId answer = op(i).outputs.front();
      part.results.push_back(
          {i, order_.cell(site.instance, answer), order_.storage_cell(site.instance, answer)});
    }
  }

  const Graph& graph_;
  const ForwardOrder& order_;
  const SelectiveRecompute& parts_;
};

void add_remade(Checkpoints& checkpoints, const Graph& graph, const ForwardOrder& order) {
  checkpoints.remade = RemadeResults(graph, order, *checkpoints.plan.parts).list();
  checkpoints.parts_of_sites.assign(order.sites().size(), 0);
  checkpoints.drops_of_sites.assign(order.sites().size(), 0);
  std::uint32_t number = 0;
  for (const RemadeResult& part : checkpoints.remade) {
    ++number;
    for (std::uint32_t i = part.begin; i < part.end; ++i) checkpoints.parts_of_sites[i] = number;
    checkpoints.drops_of_sites[part.behind] = number;
  }
}

}  // namespace

/// The hooks of what is saved hold a checkpoint's inputs (torch/utils/checkpoint.py, PyTorch 2.11,
/// _CheckpointFrame): where nothing is saved, before the first gradient, nobody does.
Checkpoints checkpoints_of(const Graph& graph, const ForwardOrder& order,
                           const CheckpointPlan& plan, std::int64_t tensor_ranks) {
  Checkpoints checkpoints;
  checkpoints.plan = plan;
  checkpoints.list = list_of(graph, order, plan);
  checkpoints.shares = plan.distributes ? tensor_ranks : 1;
  if (plan.parts && plan.parts->remakes()) add_remade(checkpoints, graph, order);
  if (plan.holds_answer) return checkpoints;
  std::erase_if(checkpoints.list, [](const Checkpoint& one) { return one.first_kept == one.end; });
  return checkpoints;
}

}  // namespace memest
