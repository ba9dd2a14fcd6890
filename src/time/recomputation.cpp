#include "recomputation.hpp"

#include <algorithm>
#include <variant>

#include "memest/diag/expect.hpp"
#include "memest/time/work.hpp"

namespace memest {
namespace {

/// How often a block is run again, and how often of these only up to the last tensor that its
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

bool stops_early(const TrainingSpec& training) {
  if (const auto* full = std::get_if<FullRecompute>(&training.recompute);
      full != nullptr && full->reentrant) {
    return false;
  }
  const bool compiled = training.implementation.compile != CompileScope::off;
  switch (training.implementation.framework) {
    case Framework::transformers:
    case Framework::nanogpt:
    case Framework::plain:
      return !compiled;          // the compiled layer is one function
    case Framework::torchtitan:  // sets early_stop=False, but is compiled with its layer
      return compiled;
    case Framework::megatron:  // its own re-entrant function
    case Framework::textbook:  // counts whole forwards
      return false;
  }
  unreachable("every framework stops early or not");
}

std::int64_t checkpointable_layers(const Graph& graph) {
  std::int64_t layers = 0;
  for (const BlockRun& run : graph.order) {
    if (graph.blocks[run.block].checkpointable) layers += run.repeat;
  }
  return layers;
}

/// ⌈L / ⌈√L⌉⌉: layers of one of ⌈√L⌉ segments.
std::int64_t sqrt_segment(std::int64_t layers) {
  std::int64_t root = 0;
  while (root * root < layers) ++root;
  return root == 0 ? 1 : (layers + root - 1) / root;
}

/// Only the last block of a segment can stop early: the ones before it must produce their outputs.
std::vector<BlockReruns> whole_block_reruns(const Graph& graph, std::int64_t segment) {
  std::vector<BlockReruns> reruns(graph.blocks.size());
  const std::int64_t layers = checkpointable_layers(graph);
  std::int64_t layer = 0;
  for (const BlockRun& run : graph.order) {
    if (!graph.blocks[run.block].checkpointable) continue;
    for (std::int64_t i = 0; i < run.repeat; ++i) {
      ++layer;
      const bool last_of_segment = layer % segment == 0 || layer == layers;
      ++(last_of_segment ? reruns[run.block].stopped_early : reruns[run.block].whole);
    }
  }
  return reruns;
}

std::vector<std::int64_t> executions_of_blocks(const Graph& graph) {
  std::vector<std::int64_t> executions(graph.blocks.size(), 0);
  for (const BlockRun& run : graph.order) executions[run.block] += run.repeat;
  return executions;
}

void recompute_selectively(const Graph& graph, Recomputations& result) {
  const std::vector<std::int64_t> executions = executions_of_blocks(graph);
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    const Block& described = graph.blocks[block];
    if (!described.checkpointable) continue;
    const bool keeps = described.keeps_selectively();
    for (std::size_t op = 0; op < described.ops.size(); ++op) {
      const Op& rerun = described.ops[op];
      if (keeps ? !rerun.kept_selectively : rerun.attention_core)
        result[block][op] = executions[block];
    }
  }
}

}  // namespace

std::int64_t layers_of_checkpoint(const Graph& graph, const Recompute& recompute) {
  if (std::holds_alternative<FullRecompute>(recompute)) return 1;
  if (const auto* every = std::get_if<EveryRecompute>(&recompute)) return every->every;
  if (std::holds_alternative<SqrtRecompute>(recompute)) {
    return sqrt_segment(checkpointable_layers(graph));
  }
  return 0;
}

Recomputations recomputations_of(const Graph& graph, const TrainingSpec& training) {
  Recomputations result;
  for (const Block& block : graph.blocks) result.emplace_back(block.ops.size(), 0);
  if (std::holds_alternative<SelectiveRecompute>(training.recompute)) {
    recompute_selectively(graph, result);
    return result;
  }
  const std::int64_t segment = layers_of_checkpoint(graph, training.recompute);
  if (segment == 0) return result;
  const bool early = stops_early(training);
  const std::vector<BlockReruns> reruns = whole_block_reruns(graph, segment);
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    const std::size_t reached =
        early ? ops_before_early_stop(graph.blocks[block]) : graph.blocks[block].ops.size();
    for (std::size_t op = 0; op < result[block].size(); ++op) {
      result[block][op] = reruns[block].whole + (op < reached ? reruns[block].stopped_early : 0);
    }
  }
  return result;
}

}  // namespace memest
