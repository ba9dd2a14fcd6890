#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "memest/plan/estimate.hpp"
#include "memest/spec/checkpoint_plan.hpp"
#include "memest/time/work.hpp"

namespace memest {
namespace {

/// Bytes that one stage keeps where whole layers are recomputed: checkpoints' inputs and the rest.
Expr saved_beside_checkpoints(const Graph& graph, const CheckpointPlan& plan) {
  const std::int64_t layers = graph.layers();
  const bool all = plan.recomputed_of(layers) == layers;
  // With all layers recomputed each keeps its input; a checkpoint of several layers keeps one for
  // all.
  Expr saved = all ? graph.saved_bytes_with_full_recompute() : graph.saved_bytes();
  std::int64_t layer = 0;
  for (const BlockRun& run : graph.order) {
    const Block& block = graph.blocks[run.block];
    if (!block.checkpointable) continue;
    const std::int64_t end = layer + run.repeat;
    const std::int64_t recomputed = plan.recomputed_of(end) - plan.recomputed_of(layer);
    const std::int64_t checkpoints = plan.checkpoints_of(end) - plan.checkpoints_of(layer);
    const Tensor& input = block.tensors[block.input];
    const Expr input_bytes = block.tensors[input.storage].bytes();
    saved += checkpoints * input_bytes;
    saved -= recomputed * (all ? input_bytes : block.saved_bytes(false));
    layer = end;
  }
  return saved;
}

/// Bytes of a layer that selective recompute does not keep.
Expr dropped_selectively(const Block& block) {
  if (!block.keeps_selectively()) {
    return block.saved_bytes(false) - block.saved_bytes_without_attention_core();
  }
  const Tensor& input = block.tensors[block.input];
  // torchtitan's selective checkpoint keeps the listed outputs and, as any checkpoint, the input.
  return block.saved_bytes(false) - block.selectively_kept_bytes() -
         block.tensors[input.storage].bytes();
}

Expr saved_without_attention_core(const Graph& graph) {
  Expr saved = graph.saved_bytes();
  for (const BlockRun& run : graph.order) {
    const Block& block = graph.blocks[run.block];
    if (!block.checkpointable) continue;
    saved -= run.repeat * dropped_selectively(block);
  }
  return saved;
}

}  // namespace

Bytes saved_bytes_of(const Graph& graph, const TrainingSpec& training) {
  const Bindings sizes = sizes_of(graph, training);
  if (std::holds_alternative<NoRecompute>(training.recompute)) {
    return graph.saved_bytes().bytes(sizes);
  }
  if (std::holds_alternative<SelectiveRecompute>(training.recompute)) {
    return saved_without_attention_core(graph).bytes(sizes);
  }
  const CheckpointPlan plan = checkpoint_plan_of(training, graph.layers());
  return saved_beside_checkpoints(graph, plan).bytes(sizes);
}

std::vector<Bytes> saved_bytes_by_layer(const Graph& graph, const TrainingSpec& training) {
  const bool selective = std::holds_alternative<SelectiveRecompute>(training.recompute);
  if (!selective && !std::holds_alternative<NoRecompute>(training.recompute)) return {};
  const Bindings sizes = sizes_of(graph, training);
  const std::vector<Expr> saved = graph.saved_bytes_by_block();
  std::vector<Bytes> layers;
  std::size_t next = 0;
  for (const BlockRun& run : graph.order) {
    const Block& block = graph.blocks[run.block];
    Expr dropped;
    if (selective) dropped = dropped_selectively(block);
    for (std::int64_t layer = 0; layer < run.repeat; ++layer, ++next) {
      if (block.checkpointable) layers.push_back((saved[next] - dropped).bytes(sizes));
    }
  }
  return layers;
}

}  // namespace memest
