#include "ledger_passes.hpp"

#include <variant>

#include "graph_terms.hpp"

namespace memest {

bool LedgerPasses::run_again(const Site& site) const {
  const bool layer = graph_.blocks[site.block].checkpointable;
  return layer && plan_.length > 0 && (site.layers_before + 1) % plan_.every == 0;
}

BlockPass LedgerPasses::of(const Site& site, bool second) const {
  const Block& block = graph_.blocks[site.block];
  if (!block.checkpointable) {
    return plan_.length > 0 ? BlockPass::keep_input_too : BlockPass::keep_all;
  }
  if (!run_again(site)) return kept_whole();
  if (!second) return plan_.selects ? BlockPass::keep_selected : BlockPass::keep_nothing;
  if (plan_.selects) return BlockPass::recompute_selected;
  if (plan_.to_end) return BlockPass::recompute_whole;
  const bool megatron = job_.training->implementation.framework == Framework::megatron;
  return megatron ? BlockPass::recompute_held : BlockPass::recompute;
}

/// The pass of a layer outside checkpoints.
BlockPass LedgerPasses::kept_whole() const {
  if (plan_.length == 0 && std::holds_alternative<SelectiveRecompute>(job_.training->recompute)) {
    return BlockPass::keep_core_out;
  }
  return BlockPass::keep_all;
}

Expr LedgerPasses::kept_of(const Block& block) const {
  return block.checkpointable && kept_whole() == BlockPass::keep_core_out
             ? block.saved_bytes_without_attention_core()
             : block.saved_bytes(false);
}

std::vector<Expr> LedgerPasses::kept_of_stages(const LayerCount& layer_count,
                                               const Expr& input) const {
  const bool waits = job_.parallelism.schedule == Schedule::gpipe;
  std::vector<Expr> stages;
  for (const auto stage : stages_of(graph_)) {
    Expr kept;
    std::int64_t layers = 0;
    for (const BlockRun& run : stage) {
      const Block& block = graph_.blocks[run.block];
      if (!block.checkpointable && layers > 0 && !waits) break;
      if (block.checkpointable) layers += run.repeat;
      const bool drops = block.checkpointable && plan_.length > 0;
      const std::int64_t dropped = drops ? run.repeat / plan_.every : 0;
      kept += layer_count.times(run.repeat - dropped) * kept_of(block);
      if (plan_.selects) kept += layer_count.times(dropped) * block.selectively_kept_bytes();
    }
    const std::int64_t inputs =
        plan_.length > 0 ? (layers / plan_.every + plan_.length - 1) / plan_.length : 0;
    kept += layer_count.times(inputs) * input;
    const bool recomputes = !std::holds_alternative<NoRecompute>(job_.training->recompute);
    if (recomputes) kept += loaded_mask_term(job_).formula;
    stages.push_back(kept);
  }
  return stages;
}

}  // namespace memest
