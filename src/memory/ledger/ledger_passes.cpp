#include "memory/ledger/ledger_passes.hpp"

#include <algorithm>
#include <variant>

#include "memory/ledger/graph_terms.hpp"

namespace memest {

bool LedgerPasses::recomputes(const Site& site) const {
  const bool layer = graph_.blocks[site.block].checkpointable;
  return layer && plan_.recomputes(site.layers_before);
}

BlockPass LedgerPasses::of(const Site& site, bool second) const {
  const Block& block = graph_.blocks[site.block];
  if (!recomputes(site)) {
    const bool behind_checkpoint =
        site.layers_before > 0 && plan_.recomputes(site.layers_before - 1);
    const BlockPass pass = kept_whole(block);
    // A block behind a checkpoint saves its input itself: the checkpoint kept nothing of its
    // output.
    return behind_checkpoint && pass == BlockPass::keep_all ? BlockPass::keep_input_too : pass;
  }
  if (!second) return plan_.selects ? BlockPass::keep_selected : BlockPass::keep_nothing;
  if (plan_.selects) {
    return plan_.stops_early ? BlockPass::recompute_selected_early : BlockPass::recompute_selected;
  }
  if (plan_.to_end) return BlockPass::recompute_whole;
  return plan_.holds_answer ? BlockPass::recompute_held : BlockPass::recompute;
}

/// The pass of a block outside checkpoints of whole layers.
BlockPass LedgerPasses::kept_whole(const Block& block) const {
  if (!plan_.parts) return BlockPass::keep_all;
  if (plan_.length == 0) return BlockPass::keep_parts_out;
  return block.checkpointable ? BlockPass::keep_all : BlockPass::keep_parts_out_too;
}

Expr LedgerPasses::kept_of(const Block& block) const {
  return kept_whole(block) == BlockPass::keep_all ? block.saved_bytes(false)
                                                  : block.saved_bytes_beside(*plan_.parts);
}

std::vector<std::int64_t> LedgerPasses::recomputed_before(const Site& site) const {
  std::vector<std::int64_t> recomputed(graph_.blocks.size());
  const std::span<const BlockRun> stage = graph_.stage_runs()[site.stage];
  std::int64_t layer = 0;
  for (const BlockRun& run : stage) {
    if (!graph_.blocks[run.block].checkpointable) continue;
    const std::int64_t end = std::min(layer + run.repeat, site.layers_before);
    if (end <= layer) break;
    recomputed[run.block] += plan_.recomputed_of(end) - plan_.recomputed_of(layer);
    layer = end;
  }
  return recomputed;
}

LedgerPasses::LedgerPasses(const Graph& graph, const Job& job, const CheckpointPlan& plan)
    : graph_(graph), job_(job), plan_(plan) {
  for (const Block& block : graph.blocks) {
    if (block.tensors[block.input].kept_before) has_inputs_kept_before_ = true;
    const Expr input = block.checkpointable ? layer_input_bytes(block) : Expr();
    const auto known = std::ranges::find(inputs_, input);
    input_of_block_.push_back(static_cast<std::size_t>(known - inputs_.begin()));
    if (known == inputs_.end()) inputs_.push_back(input);
  }
}

/// A checkpoint's input is a layer's, and nets of images have layers of many sizes.
Expr LedgerPasses::checkpoint_inputs(const LayerCount& layer_count, std::span<const BlockRun> stage,
                                     std::int64_t reached) const {
  std::vector<std::int64_t> counts(inputs_.size());
  std::int64_t layer = 0;
  for (const BlockRun& run : stage) {
    if (!graph_.blocks[run.block].checkpointable) continue;
    const std::int64_t end = std::min(layer + run.repeat, reached);
    if (end <= layer) break;
    counts[input_of_block_[run.block]] += plan_.checkpoints_of(end) - plan_.checkpoints_of(layer);
    layer = end;
  }
  Expr bytes;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) bytes += layer_count.times(counts[i]) * inputs_[i];
  }
  return bytes;
}

/// An input that the block before keeps is no checkpoint's to hold beside; behind a checkpoint,
/// which keeps nothing, the block keeps it itself.
Expr LedgerPasses::inputs_moved(const Site& site) const {
  Expr bytes;
  if (!has_inputs_kept_before_ || plan_.length == 0) return bytes;
  std::int64_t layer = 0;
  bool behind = false;
  std::vector<std::int64_t> left = site.before;
  const std::span<const BlockRun> stage = graph_.stage_runs()[site.stage];
  for (const BlockRun& run : stage) {
    const Block& block = graph_.blocks[run.block];
    for (std::int64_t i = 0; i < run.repeat && left[run.block] > 0; ++i, --left[run.block]) {
      const bool again = block.checkpointable && plan_.recomputes(layer);
      const Tensor& input = block.tensors[block.input];
      if (input.kept_before && behind && !again) bytes += input.bytes();
      if (input.kept_before && !behind && again) bytes -= input.bytes();
      behind = again;
      if (block.checkpointable) ++layer;
    }
  }
  return bytes;
}

std::vector<Expr> LedgerPasses::kept_of_stages(const LayerCount& layer_count) const {
  const bool waits = job_.parallelism.schedule == Schedule::gpipe;
  std::vector<Expr> stages;
  for (const auto stage : graph_.stage_runs()) {
    Expr kept;
    std::int64_t layers = 0;
    for (const BlockRun& run : stage) {
      const Block& block = graph_.blocks[run.block];
      // 1F1B runs the last stage's loss backward at once, so no other micro-batch in flight has got
      // to it. GPipe runs all forwards first.
      if (!block.checkpointable && layers > 0 && !waits) break;
      std::int64_t dropped = 0;
      if (block.checkpointable) {
        dropped = plan_.recomputed_of(layers + run.repeat) - plan_.recomputed_of(layers);
        layers += run.repeat;
      }
      kept += layer_count.times(run.repeat - dropped) * kept_of(block);
      if (plan_.selects) kept += layer_count.times(dropped) * block.selectively_kept_bytes();
    }
    kept += checkpoint_inputs(layer_count, stage, layers);
    const bool recomputes = !std::holds_alternative<NoRecompute>(job_.training->recompute);
    if (recomputes) kept += loaded_mask_term(job_).formula;
    stages.push_back(kept);
  }
  return stages;
}

}  // namespace memest
