#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "memest/plan/estimate.hpp"
#include "memest/time/work.hpp"

namespace memest {
namespace {

/// Inputs of checkpointable layers that are not kept where `length` layers share one checkpoint.
Expr inputs_without_checkpoint(const Graph& graph, std::int64_t length) {
  Expr dropped;
  std::int64_t layer = 0;
  for (const BlockRun& run : graph.order) {
    const Block& block = graph.blocks[run.block];
    if (!block.checkpointable) continue;
    const std::int64_t before = (layer + length - 1) / length;
    layer += run.repeat;
    const std::int64_t checkpoints = (layer + length - 1) / length - before;
    const Tensor& input = block.tensors[block.input];
    dropped += (run.repeat - checkpoints) * block.tensors[input.storage].bytes();
  }
  return dropped;
}

/// What selective recompute does not keep of a layer.
Expr dropped_selectively(const Block& block) {
  if (!block.keeps_selectively()) {
    return block.saved_bytes(false) - block.saved_bytes_without_attention_core();
  }
  const Tensor& input = block.tensors[block.input];
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
  const std::int64_t length = layers_of_checkpoint(graph, training.recompute);
  return (graph.saved_bytes_with_full_recompute() - inputs_without_checkpoint(graph, length))
      .bytes(sizes);
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
