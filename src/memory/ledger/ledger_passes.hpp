// Which pass of a block a recompute makes it run, and what autograd keeps of it between them.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/spec/job.hpp"
#include "memory/engine/sites.hpp"
#include "memory/ledger/ledger_gradients.hpp"
#include "memory/moments/moments.hpp"

namespace memest {

class LedgerPasses {
 public:
  /// The arguments outlive this.
  LedgerPasses(const Graph& graph, const Job& job, const CheckpointPlan& plan)
      : graph_(graph), job_(job), plan_(plan) {}

  /// Whether the site's layer is recomputed.
  [[nodiscard]] bool recomputes(const Site& site) const;
  /// How many of each block before the site are recomputed.
  [[nodiscard]] std::vector<std::int64_t> recomputed_before(const Site& site) const;
  /// The pass of the site's block: forward or, where `second`, backward.
  [[nodiscard]] BlockPass of(const Site& site, bool second) const;
  /// Bytes that autograd keeps of a block between forward and backward, outside checkpoints.
  [[nodiscard]] Expr kept_of(const Block& block) const;
  /// Bytes that a micro-batch waiting for its backward keeps of each stage: up to where the next
  /// stage goes on. The head's backward comes at once, but for GPipe's. A checkpoint keeps `input`.
  [[nodiscard]] std::vector<Expr> kept_of_stages(const LayerCount& layer_count,
                                                 const Expr& input) const;

 private:
  [[nodiscard]] BlockPass kept_whole() const;

  const Graph& graph_;
  const Job& job_;
  const CheckpointPlan& plan_;
};

}  // namespace memest
