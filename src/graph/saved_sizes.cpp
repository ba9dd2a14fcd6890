#include "memest/graph/saved_sizes.hpp"

#include <algorithm>
#include <set>

#include "memest/graph/unpacked.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

void add(SavedSizes& sizes, std::int64_t bytes, std::int64_t count) {
  if (bytes > 0 && count > 0) sizes[bytes] = checked_add(sizes[bytes], count);
}

void add_block(SavedSizes& sizes, const Graph& graph, const Block& block, std::int64_t times) {
  if (times == 0) return;
  for (const Op& op : block.ops) {
    for (const UnpackedTensor& one : unpacked_by(block, op, graph.sizes)) {
      add(sizes, narrow_to_int64(one.bytes.evaluate(graph.sizes)), times);
    }
  }
}

}  // namespace

SavedSizes saved_sizes(const Graph& graph, const CheckpointPlan& plan) {
  SavedSizes sizes;
  std::int64_t layer = 0;
  for (const BlockRun& run : graph.order) {
    const Block& block = graph.blocks[run.block];
    if (!block.checkpointable) {
      add_block(sizes, graph, block, run.repeat);
      continue;
    }
    const std::int64_t end = layer + run.repeat;
    const std::int64_t recomputed = plan.recomputed_of(end) - plan.recomputed_of(layer);
    add_block(sizes, graph, block, run.repeat - recomputed);
    const Tensor& input = block.tensors[block.input];
    add(sizes, narrow_to_int64(input.bytes().evaluate(graph.sizes)),
        plan.checkpoints_of(end) - plan.checkpoints_of(layer));
    layer = end;
  }
  return sizes;
}

SavedSizes offloaded_sizes(const Graph& graph, std::int64_t layers) {
  SavedSizes sizes;
  for (const BlockRun& run : graph.order) {
    const Block& block = graph.blocks[run.block];
    if (!block.checkpointable || layers == 0) continue;
    const std::int64_t times = std::min(layers, run.repeat);
    layers -= times;
    std::set<TensorId> storages;
    for (const Op& op : block.ops) {
      const std::vector<UnpackedTensor> saved = unpacked_by(block, op, graph.sizes);
      for (const TensorId storage : listed_of(block, op, saved)) storages.insert(storage);
    }
    for (const TensorId storage : storages) {
      const Expr bytes = block.tensors[storage].bytes();
      add(sizes, narrow_to_int64(bytes.evaluate(graph.sizes)), times);
    }
  }
  return sizes;
}

}  // namespace memest
