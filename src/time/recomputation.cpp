#include "time/recomputation.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

/// How often a block is recomputed, and how often of these only up to the last tensor that its
/// backward needs.
struct BlockReruns {
  std::int64_t whole = 0;
  std::int64_t stopped_early = 0;
};

bool is_output(const Op& op, TensorId tensor) {
  return std::find(op.outputs.begin(), op.outputs.end(), tensor) != op.outputs.end();
}

/// Whether the op saves nothing that its own kernel makes: then its saved tensors exist before it
/// runs.
bool saves_inputs_only(const Op& op) {
  if (op.saves_behind) return false;
  const auto is_input = [&](TensorId tensor) {
    return !is_output(op, tensor) &&
           std::find(op.inputs.begin(), op.inputs.end(), tensor) != op.inputs.end();
  };
  return std::all_of(op.saved.begin(), op.saved.end(), is_input);
}

/// Ops that run before torch.utils.checkpoint stops: it stops as soon as the last saved tensor is
/// back, so an op that saves only its inputs is not run itself if it is the last to save. Source:
/// torch/utils/checkpoint.py, _StopRecomputationError.
std::size_t ops_before_early_stop(const Block& block) {
  for (std::size_t count = block.ops.size(); count > 0; --count) {
    const Op& op = block.ops[count - 1];
    if (op.saved.empty()) continue;
    return saves_inputs_only(op) ? count - 1 : count;
  }
  return 0;
}

/// Only the last block of a checkpoint can stop early: the ones before it must produce their
/// outputs.
std::vector<BlockReruns> whole_block_reruns(const Graph& graph, const TrainingSpec& training,
                                            std::span<const std::int64_t> stages) {
  std::vector<BlockReruns> reruns(graph.blocks.size());
  auto stage = stages.begin();
  std::int64_t layer = 0;
  for (const BlockRun& run : graph.order) {
    if (!graph.blocks[run.block].checkpointable) continue;
    for (std::int64_t i = 0; i < run.repeat; ++i, ++layer) {
      // A checkpoint never spans two stages: each stage counts its layers from 0.
      while (layer == *stage) {
        layer = 0;
        ++stage;
      }
      const CheckpointPlan plan = checkpoint_plan_of(training, *stage);
      if (!plan.recomputes(layer)) continue;
      BlockReruns& of_block = reruns[run.block];
      ++(plan.ends_checkpoint(layer, *stage) ? of_block.stopped_early : of_block.whole);
    }
  }
  return reruns;
}

/// A float8 linear casts its operands by calls of their own.
bool runs_other_calls(const Op& op) {
  return std::ranges::any_of(op.forward_steps,
                             [](const Step& step) { return step.of == StepOf::other; });
}

std::vector<std::int64_t> executions_of_blocks(const Graph& graph) {
  std::vector<std::int64_t> executions(graph.blocks.size(), 0);
  for (const BlockRun& run : graph.order) executions[run.block] += run.repeat;
  return executions;
}

Recomputations recompute_parts(const Graph& graph, const std::optional<SelectiveRecompute>& parts) {
  const std::vector<std::int64_t> executions = executions_of_blocks(graph);
  Recomputations result;
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    const Block& described = graph.blocks[block];
    result.emplace_back(described.ops.size(), Recomputation{});
    for (std::size_t i = 0; parts && i < described.ops.size(); ++i) {
      if (runs_again(*parts, described.ops[i])) result[block][i].whole = executions[block];
    }
  }
  return result;
}

}  // namespace

Recomputations recomputations_of(const Graph& graph, const TrainingSpec& training,
                                 std::span<const std::int64_t> stages) {
  const CheckpointPlan plan = checkpoint_plan_of(training, graph.layers());
  const std::vector<BlockReruns> reruns = whole_block_reruns(graph, training, stages);
  Recomputations result = recompute_parts(graph, plan.parts);
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    const std::vector<Op>& ops = graph.blocks[block].ops;
    // A region that is compiled with its checkpoint leaves out what no backward reads.
    const std::size_t reached =
        plan.stops_early ? ops_before_early_stop(graph.blocks[block]) : ops.size();
    for (std::size_t op = 0; op < ops.size(); ++op) {
      result[block][op].whole += reruns[block].whole;
      if (op < reached) result[block][op].whole += reruns[block].stopped_early;
    }
    // _CachedTorchDispatchMode takes listed results from its storage, so these are not run again.
    for (std::size_t op = 0; plan.selects && op < ops.size(); ++op) {
      if (!ops[op].kept_selectively) continue;
      const std::int64_t times = std::exchange(result[block][op].whole, 0);
      if (runs_other_calls(ops[op])) result[block][op].casts = times;
    }
  }
  return result;
}

double over_single_stage(const CheckpointPlan& plan, std::int64_t count, std::int64_t all) {
  const auto share = [&plan](std::int64_t layers) {
    return static_cast<double>(plan.recomputed_of(layers)) / static_cast<double>(layers);
  };
  // With 2 layers recomputed in every stage (Megatron's `block` method), stages of 4 layers
  // recompute half, where one of 32 would recompute a sixteenth.
  return count == 0 ? 1 : share(count) / share(all);
}

}  // namespace memest
