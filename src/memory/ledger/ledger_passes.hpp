// Which pass of a block a recompute makes it run, and what autograd keeps of it between them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memest/spec/job.hpp"
#include "memory/engine/sites.hpp"
#include "memory/ledger/ledger_gradients.hpp"
#include "memory/moments/moments.hpp"

namespace memest {

class LedgerPasses {
 public:
  /// The arguments outlive this.
  LedgerPasses(const Graph& graph, const Job& job, const CheckpointPlan& plan);

  /// Whether the site's layer is recomputed.
  [[nodiscard]] bool recomputes(const Site& site) const;
  /// How many of each block before the site are recomputed.
  [[nodiscard]] std::vector<std::int64_t> recomputed_before(const Site& site) const;
  /// The pass of the site's block: forward or, where `second`, backward.
  [[nodiscard]] BlockPass of(const Site& site, bool second) const;
  /// Bytes that autograd keeps of a block between forward and backward, outside checkpoints.
  [[nodiscard]] Expr kept_of(const Block& block) const;
  /// Bytes that a micro-batch waiting for its backward keeps of each stage: up to where the next
  /// stage goes on. The head's backward comes at once, but for GPipe's.
  [[nodiscard]] std::vector<Expr> kept_of_stages(const LayerCount& layer_count) const;
  /// Bytes of the inputs that checkpoints of the first `reached` layers of a stage keep.
  [[nodiscard]] Expr checkpoint_inputs(const LayerCount& layer_count,
                                       std::span<const BlockRun> stage, std::int64_t reached) const;
  /// How much more the blocks before the site keep of their inputs than those sums say.
  [[nodiscard]] Expr inputs_moved(const Site& site) const;

 private:
  [[nodiscard]] BlockPass kept_whole(const Block& block) const;

  const Graph& graph_;
  const Job& job_;
  const CheckpointPlan& plan_;
  bool has_inputs_kept_before_ = false;
  std::vector<Expr> inputs_;                 // of layers, those that differ
  std::vector<std::size_t> input_of_block_;  // into them
};

}  // namespace memest
