// Tensors that a pipeline's rank holds beside the running micro-batch: other micro-batches whose
// backward is to come, and what stages send one another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memest/memory/ledger.hpp"
#include "memest/spec/job.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "memory/engine/sites.hpp"
#include "memory/ledger/ledger_units.hpp"
#include "memory/moments/moments.hpp"

namespace memest {

class LedgerStages {
 public:
  /// The arguments outlive this. `kept`: bytes that one micro-batch keeps of each of the graph's
  /// stages until its backward has run.
  LedgerStages(const LedgerUnits& units, const Job& job, std::int64_t rank, std::vector<Expr> kept);

  /// A moment of the schedule when a stage works.
  struct Life {
    Expr others;           ///< activations of the other micro-batches
    Expr missing_sums;     ///< of all stages' sums of gradients those that are still to come
    bool has_sums = true;  ///< the stage's own sums of gradients are there
    /// and gradients of a second part, which the next first one adds to them
    bool has_fresh = false;
    /// Which pass it is a moment of, and what runs of a backward.
    bool forward = true;
    bool backward = true;
    BackwardPart part = BackwardPart::whole;
  };
  /// Moments of the stage that can be the peak.
  [[nodiscard]] const std::vector<Life>& lives(std::size_t stage) const { return lives_[stage]; }
  /// While the site's block works, forward or backward.
  [[nodiscard]] Expr in_flight(const Life& life, const Site& site, bool backward) const;
  /// In a first backward at a moment of the site's block: where no unit sums gradients they are
  /// adopted, those before the one that the moment makes; a table's sum is made beside its
  /// gradient.
  [[nodiscard]] LedgerTerm adopted(const Life& life, const Site& site, const Moment& moment) const;
  /// Bytes, in the backward of the site's block, of the tensors named between the stages, less
  /// those of its activations that lie in the buffers among residents().
  [[nodiscard]] Expr passing(const Site& site) const;
  /// At the end of the second part of a stage's backward: what nodes without parameters saved, the
  /// weights' gradients, and the last of them as it is made beside what it is made of. Nothing
  /// where backwards are whole.
  [[nodiscard]] LedgerTerm second_part(std::size_t stage) const;
  /// Whether all micro-batches are one batch, among residents().
  [[nodiscard]] bool hold_batch() const { return !residents_.empty(); }
  /// Which stages have sums of gradients when one reduces its own, behind its last backward. This
  /// outlives it.
  [[nodiscard]] LedgerUnits::SumsBeside sums_beside() const;
  /// There from the first step to the last.
  [[nodiscard]] const std::vector<LedgerTerm>& residents() const { return residents_; }

 private:
  void follow_megatron();
  void follow_torch();
  void count_unequal_stages();
  [[nodiscard]] std::vector<std::int64_t> bytes_of(const std::vector<Expr>& formulas) const;
  [[nodiscard]] std::int64_t index_of(std::size_t stage) const;
  [[nodiscard]] bool is_first(std::size_t stage) const;
  [[nodiscard]] bool is_last(std::size_t stage) const;
  /// Whether the next stage is this rank's too, and takes what this one answers as it is.
  [[nodiscard]] bool hands_on_here(std::size_t stage) const;
  /// Bytes of the stage's sums of gradients, which the first backward makes.
  [[nodiscard]] Expr sums_of(std::size_t stage) const;
  [[nodiscard]] Expr sums_of_block(std::size_t block) const;
  [[nodiscard]] Expr fresh_of(std::size_t stage) const;
  [[nodiscard]] Expr fresh_of_block(std::size_t block) const;
  /// By stage, at one moment.
  struct InFlight {
    std::vector<std::int64_t> micro_batches;
    std::vector<std::int64_t> waiting;  ///< between the parts of their backward
    std::vector<bool> has_fresh;        ///< gradients not widened yet, of a second part
    std::vector<bool> has_sums;
    std::vector<std::int64_t> unreduced;  ///< micro-batches whose backward is still to end
    std::int64_t logits = 0;  ///< that the last stage saves of micro-batches that are done
    bool forward = false;
    BackwardPart part = BackwardPart::whole;
    std::int64_t bytes = -1;
  };
  /// Bytes of the gradients that the nodes of a block's parameters receive, kept between the two
  /// parts of a backward.
  [[nodiscard]] Expr held_of_block(std::size_t block) const;
  /// Bytes that a micro-batch keeps between them: without loss and logits on the last stage.
  [[nodiscard]] Expr waits_with(std::size_t stage) const;
  /// Whether the stage's backwards have two parts: without an input that wants a gradient the first
  /// is empty.
  [[nodiscard]] bool splits(std::size_t stage) const;
  [[nodiscard]] Expr held_by_inputs(std::size_t stage) const;
  void find_lives();
  [[nodiscard]] Life life_of(const InFlight& moment, std::size_t stage) const;
  [[nodiscard]] Expr logits() const;
  [[nodiscard]] std::int64_t first_saved_of(const std::vector<PipelineAction>& actions) const;
  void end_action(const PipelineAction& action, InFlight& now);
  /// Moments of one kind differ in bytes alone: forwards, parts of backwards, and with and without
  /// sums.
  static constexpr std::size_t kKinds = 8;
  [[nodiscard]] static std::size_t kind_of(const InFlight& moment, std::size_t stage);

  const LedgerUnits& units_;
  const Graph& graph_;
  const Job& job_;
  PipelinePlace place_;
  std::vector<Expr> kept_;
  std::vector<std::vector<Life>> lives_;
  std::vector<Expr> passing_;
  std::vector<std::vector<bool>> sums_at_reduction_;  ///< by stage; empty: in the order of stages
  std::vector<LedgerTerm> residents_;
  Expr stream_;               ///< of what stages send each other
  bool has_buffers_ = false;  ///< that gradients are received in, and stay
};

}  // namespace memest
