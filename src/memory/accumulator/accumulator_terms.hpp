// Tensors that nanotron makes beside its accumulated gradients: a backward's own in the weights'
// type until it ends, flat copies of what ZeRO 1 reduces and gathers, and a micro-batch's masks.
// nanotron, optim/gradient_accumulator.py, optim/zero.py and distributed.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/spec/job.hpp"
#include "memory/engine/sites.hpp"

namespace memest {

class AccumulatorTerms {
 public:
  /// Every list is empty for a job without an accumulator. `job` outlives this.
  AccumulatorTerms(const Graph& graph, const Job& job);
  [[nodiscard]] bool exist() const { return exists_; }

  /// Labels and masks, which the loop names until the next micro-batch's.
  [[nodiscard]] std::vector<LedgerTerm> residents() const;
  /// The flat copies of the bucket that filled last, when `own` elements of the site's block are
  /// complete.
  [[nodiscard]] std::vector<LedgerTerm> reducing(const Site& site, const Expr& own) const;
  /// Terms that are alive at one time, beside the residents or alone.
  struct Together {
    std::string name;
    std::vector<LedgerTerm> terms;
    bool beside_residents = true;
  };
  /// Behind the backward, and in the first step, before the optimizer has states.
  [[nodiscard]] std::vector<Together> steps(const Graph& graph) const;

 private:
  [[nodiscard]] LedgerTerm copies(std::int64_t elements) const;
  [[nodiscard]] LedgerTerm whole(const char* name, DType type) const;

  const Job& job_;
  bool exists_ = false;
  bool divides_ = false;
  /// Other micro-batches are in flight but while the last one's gradients are reduced.
  bool flies_beside_ = false;
  const Graph& graph_;
  std::vector<std::int64_t> buckets_;         // elements, the first to fill first
  std::vector<std::int64_t> block_elements_;  // of each block of the graph
};

}  // namespace memest
