// Gradients of parameters in formulas: those that the backward pass has made by a moment, those
// that wait to be added, and what FSDP2 has not yet reduced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "memest/memory/ledger.hpp"
#include "memest/spec/job.hpp"
#include "memory/accumulator/accumulator_terms.hpp"
#include "memory/engine/sites.hpp"
#include "memory/ledger/deepspeed_terms.hpp"
#include "memory/ledger/ledger_terms.hpp"
#include "memory/ledger/ledger_units.hpp"
#include "memory/moments/ledger_moments.hpp"
#include "memory/moments/moments.hpp"

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
  /// The arguments outlive this.
  LedgerGradients(const LedgerMoments& moments, const Job& job, const LedgerUnits& units,
                  LayerCount layer_count);

  /// Instants of the whole step that a program's own sharding makes.
  [[nodiscard]] std::vector<DeepSpeedTerms::Instant> steps() const;
  /// DeepSpeed's buckets and gathered weights.
  [[nodiscard]] const DeepSpeedTerms& stages() const { return zero_; }
  /// Terms that are there from the constructor, or the first forward, on.
  [[nodiscard]] std::vector<LedgerTerm> residents() const {
    return accumulator_.exist() ? accumulator_.residents() : zero_.residents();
  }

  /// All of them, between the backward pass and zero_grad.
  [[nodiscard]] std::vector<LedgerTerm> all() const;
  /// Gradients that are there in the forward pass too, from one micro-step to the next; `missing`
  /// bytes of a pipeline's sums are still to come.
  [[nodiscard]] std::vector<LedgerTerm> kept(const Expr& missing) const;
  /// Copies that the optimizer's step makes of those that no unit reduces.
  [[nodiscard]] LedgerTerm relaid() const;

  /// Gradient bytes of everything after the site.
  [[nodiscard]] Expr later(const Site& site) const { return later(site, false); }
  /// At a moment of the backward pass of the site's block; `later` as above, which all moments of
  /// the site share.
  [[nodiscard]] std::vector<LedgerTerm> at(const Site& site, const Moment& moment,
                                           const Expr& later) const;
  /// As at(), where all is done but what FSDP2 reduces at the end.
  [[nodiscard]] std::vector<LedgerTerm> before_the_end(const Site& site,
                                                       const Moment& moment) const;

  /// Those of a block's moments that take most at some sizes; `terms` bind the other letters.
  [[nodiscard]] std::vector<Moment> possible_peaks(std::size_t block,
                                                   const std::vector<Moment>& moments,
                                                   const LedgerTerms& terms) const;

 private:
  [[nodiscard]] Expr bytes_of(std::size_t block, const Expr& elements) const;
  [[nodiscard]] Expr own(std::size_t block, const Moment& moment) const;
  [[nodiscard]] Expr arriving(const Moment& moment) const;
  [[nodiscard]] Expr later(const Site& site, bool reduced) const;
  [[nodiscard]] Expr waiting_elements(const Site& site) const;
  [[nodiscard]] Expr unreduced_elements() const;
  [[nodiscard]] std::vector<DeepSpeedTerms::Instant> flat_buffers() const;
  [[nodiscard]] std::vector<DeepSpeedTerms::Instant> reduced_and_gathered() const;
  [[nodiscard]] DeepSpeedTerms::Instant buffers_made(const Expr& flat, const Expr& waiting) const;
  [[nodiscard]] std::int64_t layers_of_experts(std::span<const BlockRun> chunk) const;
  [[nodiscard]] std::vector<LedgerTerm> terms(const Site& site, const Moment& moment,
                                              const Expr& later) const;

  const Graph& graph_;
  const Job& job_;
  const TrainingSpec& training_;
  const LedgerUnits& units_;
  LayerCount layer_count_;
  DeepSpeedTerms zero_;
  AccumulatorTerms accumulator_;
  bool in_buffer_;
  bool persist_;
  std::vector<Expr> elements_;  // of each block, tied weights included
  std::vector<Expr> bytes_;     // of these
  struct Tied {
    std::size_t block = 0;
    Expr elements;
  };
  std::vector<Tied> tied_;  // of the blocks that have any
};

}  // namespace memest
