#include <cstddef>
#include <cstdint>
#include <vector>

#include "memest/plan/estimate.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"
#include "memest/time/work.hpp"

namespace memest {
namespace {

const Tensor& input_storage(const Block& block) {
  return block.tensors[block.tensors[block.input].storage];
}

/// Whether an operation of the block saves its input.
bool saves_input(const Block& block) {
  for (const Op& op : block.ops) {
    for (const TensorId id : op.saved) {
      if (block.tensors[id].storage == block.tensors[block.input].storage) return true;
    }
  }
  return false;
}

/// How often a block keeps what between forward and backward.
struct KeptTimes {
  std::int64_t whole = 0;     ///< all that its operations save
  std::int64_t inputs = 0;    ///< its input beside: of a checkpoint, or behind one
  std::int64_t selected = 0;  ///< what a selective checkpoint's list names
};

/// Under checkpoints around whole layers. A layer's input that the block before keeps anyway
/// (Tensor::kept_before) counts where that is a checkpoint, which keeps nothing.
std::vector<KeptTimes> kept_times(const Graph& graph, const CheckpointPlan& plan) {
  std::vector<KeptTimes> times(graph.blocks.size());
  std::int64_t layer = 0;
  bool behind = false;
  for (const BlockRun& run : graph.order) {
    const Block& block = graph.blocks[run.block];
    const bool kept_before = input_storage(block).kept_before;
    KeptTimes& of_block = times[run.block];
    for (std::int64_t i = 0; i < run.repeat; ++i) {
      const bool again = block.checkpointable && plan.recomputes(layer);
      if (again) {
        const bool begins = plan.checkpoints_of(layer + 1) > plan.checkpoints_of(layer);
        if (begins && (behind || !kept_before)) ++of_block.inputs;
        if (plan.selects) ++of_block.selected;
      } else {
        ++of_block.whole;
        if (behind && kept_before && saves_input(block)) ++of_block.inputs;
      }
      behind = again;
      if (block.checkpointable) ++layer;
    }
  }
  return times;
}

/// Bytes that one stage keeps where whole layers are recomputed: checkpoints' inputs and the rest.
Expr saved_beside_checkpoints(const Graph& graph, const CheckpointPlan& plan) {
  const std::int64_t layers = graph.layers();
  const bool all = plan.recomputed_of(layers) == layers && !plan.selects;
  Expr saved = graph.shared_saved_bytes(!all);
  const std::vector<KeptTimes> times = kept_times(graph, plan);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Block& block = graph.blocks[i];
    const Tensor& input = input_storage(block);
    if (times[i].whole > 0) {
      saved += times[i].whole *
               (plan.parts ? block.saved_bytes_beside(*plan.parts) : block.saved_bytes(false));
    }
    if (times[i].inputs > 0 && !input.shared) saved += times[i].inputs * input.bytes();
    if (times[i].selected > 0) saved += times[i].selected * block.selectively_kept_bytes();
  }
  return saved;
}

}  // namespace

Bytes saved_bytes_of(const Graph& graph, const TrainingSpec& training) {
  const Bindings sizes = sizes_of(graph, training);
  const CheckpointPlan plan = checkpoint_plan_of(training, graph.layers());
  if (plan.length > 0) return saved_beside_checkpoints(graph, plan).bytes(sizes);
  if (!plan.parts) return graph.saved_bytes().bytes(sizes);
  Expr saved = graph.shared_saved_bytes(true);
  for (const BlockRun& run : graph.order) {
    saved += run.repeat * graph.blocks[run.block].saved_bytes_beside(*plan.parts);
  }
  return saved.bytes(sizes);
}

std::vector<Bytes> saved_bytes_by_layer(const Graph& graph, const TrainingSpec& training) {
  const CheckpointPlan plan = checkpoint_plan_of(training, graph.layers());
  if (plan.length > 0 && !plan.selects) return {};
  const Bindings sizes = sizes_of(graph, training);
  const std::vector<Expr> saved = graph.saved_bytes_by_block();
  std::vector<Bytes> layers;
  std::size_t next = 0;
  for (const BlockRun& run : graph.order) {
    const Block& block = graph.blocks[run.block];
    // torchtitan's selective checkpoint keeps the listed outputs and, as any checkpoint, the input.
    Expr kept = block.saved_bytes(false);
    if (plan.selects) kept = block.selectively_kept_bytes() + input_storage(block).bytes();
    if (plan.parts) kept = block.saved_bytes_beside(*plan.parts);
    const Expr dropped = block.saved_bytes(false) - kept;
    for (std::int64_t layer = 0; layer < run.repeat; ++layer, ++next) {
      if (block.checkpointable) layers.push_back((saved[next] - dropped).bytes(sizes));
    }
  }
  return layers;
}

}  // namespace memest
