// Which gradients are alive at a moment of a step's backward, as formulas of one rank.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"
#include "memest/symbolic/expr.hpp"
#include "moments.hpp"
#include "sites.hpp"

namespace memest {

/// How many of a stage's layers, written with L where the count follows the stage.
class LayerCount {
 public:
  /// `layers` of one stage.
  LayerCount(const Graph& graph, std::int64_t layers)
      : layers_(layers), has_letter_(graph.sizes.has(Symbol::layers)) {}

  [[nodiscard]] Expr times(std::int64_t count) const;

 private:
  std::int64_t layers_;
  bool has_letter_;
};

class LedgerGradients {
 public:
  /// `graph` and `job` outlive this.
  LedgerGradients(const Graph& graph, const Job& job, LayerCount layer_count);

  /// Whether all of them stay between the steps' forwards and backwards.
  [[nodiscard]] bool persist() const { return persist_; }
  /// Bytes of the block's own gradients by this moment; a unit's are among its gathered tensors.
  [[nodiscard]] Expr of_block(const Block& block, const Moment& moment) const;
  /// Of everything after the site.
  [[nodiscard]] Expr of_later(const Site& site) const;
  /// Bytes of the running operation's weight gradient where it stands beside the one that stays:
  /// to be cast, to be added to it, or to be divided over the ranks.
  [[nodiscard]] Expr arriving(const Moment& moment) const;
  /// Elements of tied weights whose gradient waits for the embedding's, to be added to it.
  [[nodiscard]] Expr waiting_elements(const Site& site) const;

 private:
  [[nodiscard]] Expr bytes_of(const Block& block, const Expr& elements) const;

  const Graph& graph_;
  const Job& job_;
  LayerCount layer_count_;
  bool persist_;
  std::vector<Expr> elements_;  // of each block, tied weights included
};

}  // namespace memest
