#include <variant>

#include "memest/plan/estimate.hpp"
#include "memest/time/work.hpp"

namespace memest {
namespace {

/// Blocks kept whole, and the tables that all layers share.
Expr saved_outside_checkpoints(const Graph& graph) {
  Expr saved;
  for (const BlockRun& run : graph.order) {
    const Block& block = graph.blocks[run.block];
    if (!block.checkpointable) saved += run.repeat * block.saved_bytes(false);
  }
  return saved;
}

/// One input for every `length` layers. What a layer's function closes over (cos and sin tables) is
/// not saved by autograd.
Expr saved_inputs(const Graph& graph, std::int64_t length) {
  Expr saved;
  std::int64_t layer = 0;
  for (const BlockRun& run : graph.order) {
    const Block& block = graph.blocks[run.block];
    if (!block.checkpointable) continue;
    const std::int64_t before = (layer + length - 1) / length;
    layer += run.repeat;
    const std::int64_t checkpoints = (layer + length - 1) / length - before;
    const Tensor& input = block.tensors[block.input];
    saved += checkpoints * block.tensors[input.storage].bytes();
  }
  return saved;
}

Expr saved_without_attention_core(const Graph& graph) {
  Expr saved = graph.saved_bytes();
  for (const BlockRun& run : graph.order) {
    const Block& block = graph.blocks[run.block];
    if (!block.checkpointable) continue;
    saved -= run.repeat * (block.saved_bytes(false) - block.saved_bytes_without_attention_core());
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
  const std::int64_t length = layers_of_checkpoint(graph, training.recompute);
  return (saved_outside_checkpoints(graph) + saved_inputs(graph, length)).bytes(sizes);
}

}  // namespace memest
