// FSDP in formulas: what its units gather and reduce around a place of the forward order. The rules
// are those of timeline/sharded_units.hpp, for FSDP1 of timeline/flat_units.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "memest/memory/ledger.hpp"
#include "memest/spec/job.hpp"
#include "memory/engine/sites.hpp"
#include "memory/moments/moments.hpp"
#include "memory/states/gathered_elements.hpp"

namespace memest {

class LedgerUnits {
 public:
  LedgerUnits(const Graph& graph, const Job& job);

  [[nodiscard]] const Graph& graph() const { return graph_; }
  /// Whether the job has units at all; the rest is asked only then.
  [[nodiscard]] bool exist() const { return exist_; }

  /// While the site's block runs.
  [[nodiscard]] std::vector<LedgerTerm> in_forward(const Site& site) const;
  [[nodiscard]] std::vector<LedgerTerm> in_backward(const Site& site) const;
  /// Whether whole gradients are summed up until a step's last micro-step, whose backward alone
  /// reduces. A backward is then one of two, and the terms of both have the sums.
  [[nodiscard]] bool holds() const { return holds_; }
  /// Whether the backward that is asked of is one that reduces nothing.
  [[nodiscard]] bool is_holding() const { return micro_step_ == MicroStep::holding; }
  /// Calls `write` for each of them; what it asks meanwhile is asked of that one.
  template <class Write>
  void each_micro_step(Write write) {
    for (const MicroStep micro_step :
         holds_ ? std::vector{MicroStep::holding, MicroStep::reducing} : std::vector{micro_step_}) {
      micro_step_ = micro_step;
      write();
    }
  }

  /// A moment between the blocks' operations.
  struct Hook {
    std::string name;
    std::vector<LedgerTerm> terms;
  };
  /// A moment of the block's operation at this place, forward, run again, or backward.
  enum class Pass : std::uint8_t { forward, again, backward };
  /// Terms beside those of in_forward() or in_backward(), because the layer's experts are a unit of
  /// their own inside.
  [[nodiscard]] std::vector<LedgerTerm> of_experts(const Site& site, std::size_t at,
                                                   Pass pass) const;
  /// Where a place stands to the experts' operations: between places of one kind of_experts() is
  /// the same. All are before them where no experts are apart.
  enum class Stretch : std::uint8_t { before, inside, at_last, behind };
  static constexpr std::array kStretches = {Stretch::before, Stretch::inside, Stretch::at_last,
                                            Stretch::behind};
  [[nodiscard]] Stretch stretch_of(std::size_t block, std::size_t at) const;
  /// Elements of the block's experts where they are apart.
  [[nodiscard]] Expr expert_elements(std::size_t block) const;
  /// Behind the backward of the experts' operations, where they are apart.
  [[nodiscard]] std::vector<Hook> experts_reduced(const Site& site) const;

  /// Before the block's forward, and its backward; none where no unit begins.
  [[nodiscard]] std::vector<Hook> before_forward(const Site& site) const;
  [[nodiscard]] std::vector<Hook> before_backward(const Site& site) const;
  /// Behind the backward of the block where its unit is reduced; the units that no gradient leaves
  /// are reduced behind the first block's.
  [[nodiscard]] std::vector<Hook> after_backward(const Site& site) const;

  /// Before the first step, where shards are made of weights that are there whole.
  [[nodiscard]] std::vector<Hook> sharding() const;
  /// Whether whole gradients are summed up, in the reduced type, until a step's last backward has
  /// run: under a pipeline, where all weights stay gathered.
  [[nodiscard]] bool sum() const { return sums_; }
  /// Bytes of sums of so many elements; FSDP1 adds up in the type of the gather.
  [[nodiscard]] Expr sums(const Expr& elements) const {
    return (flat_ ? gathered_ : reduced_) * elements;
  }
  /// Bytes of the sums of a block's gradients: the whole for a table over tensor-parallel ranks.
  [[nodiscard]] Expr sums_of(std::size_t block) const;
  /// The sums of all gradients of the rank.
  [[nodiscard]] LedgerTerm all_sums() const;
  /// Whether a stage of the rank has sums when another reduces its own.
  using SumsBeside = std::function<bool(std::size_t reduced, std::size_t other)>;
  /// The sums are reduced, unit by unit: the first of every kind of them.
  [[nodiscard]] std::vector<Hook> reductions(const SumsBeside& beside) const;

  /// Bytes of a block's gradients that are not yet added to its sums.
  [[nodiscard]] Expr unsummed(const Moment& moment) const;
  /// Bytes of gradients of `elements` as a block's backward makes them.
  [[nodiscard]] Expr whole_gradients(const Expr& elements) const { return gathered_ * elements; }
  /// Whether the gradients of the block are reduced at the end of the whole backward.
  [[nodiscard]] bool reduces_at_end(std::size_t block) const;

 private:
  enum class MicroStep : std::uint8_t { reducing, holding };
  enum class Part : std::uint8_t { input, layer, tail, loss };
  /// Elements that are all-gathered at once; zero where there is no such unit.
  struct Ends {
    GatheredElements input;  ///< the embedding
    GatheredElements tail;   ///< the final norm with the head
    GatheredElements root;   ///< the rest that is outside the layers
  };

  void take_ends_apart();
  [[nodiscard]] Expr in_gathered_types(const GatheredElements& elements) const;
  [[nodiscard]] Part part_of(const Site& site) const;
  [[nodiscard]] GatheredElements layer(std::size_t block) const;
  /// Parameters of the layer behind so many others.
  [[nodiscard]] GatheredElements layer_at(std::int64_t index) const;
  /// The experts of a layer, where several ranks gather them.
  [[nodiscard]] GatheredElements gathered_experts(std::int64_t index) const;
  [[nodiscard]] std::optional<std::size_t> block_at(std::int64_t index) const;
  [[nodiscard]] GatheredElements gathered_ahead(const Site& site) const;
  [[nodiscard]] GatheredElements own_experts(const Site& site) const;
  [[nodiscard]] GatheredElements left_output(const Site& site) const;
  [[nodiscard]] bool cuts_columns() const;
  [[nodiscard]] Expr reduced_layer(const Expr& elements) const;
  [[nodiscard]] GatheredElements first_layer() const;
  [[nodiscard]] GatheredElements last_layer() const;
  [[nodiscard]] GatheredElements own(const Site& site) const;
  [[nodiscard]] GatheredElements before(const Site& site) const;
  [[nodiscard]] GatheredElements all_before(const Site& site) const;
  void find_table();
  [[nodiscard]] Expr active() const;
  [[nodiscard]] GatheredElements spanning() const;
  [[nodiscard]] GatheredElements weights(const Site& site) const;
  [[nodiscard]] GatheredElements kept_output(const Site& site) const;
  [[nodiscard]] GatheredElements prefetched(const Site& site) const;
  [[nodiscard]] Expr kept_input(const Site& site) const;
  void add_sums(std::vector<LedgerTerm>& terms, const Site& site) const;
  [[nodiscard]] std::vector<LedgerTerm> sums_left(const Expr& elements) const;
  [[nodiscard]] bool stays_gathered(const Site& site) const;
  [[nodiscard]] std::vector<Hook> at_end() const;
  [[nodiscard]] LedgerTerm whole_term(const Expr& elements) const;
  [[nodiscard]] LedgerTerm made_term(const Expr& elements) const;
  void take_sums(std::vector<Hook>& hooks, const Expr& left, const Expr& own) const;
  [[nodiscard]] std::vector<Hook> reduced_flat(const Expr& elements,
                                               const GatheredElements& ahead) const;
  [[nodiscard]] std::vector<Hook> reduced(const std::string& name, const Expr& elements,
                                          const Expr& last, std::vector<LedgerTerm> beside) const;

  // Terms of so many elements.
  [[nodiscard]] LedgerTerm gathered_term(const GatheredElements& elements) const;
  [[nodiscard]] LedgerTerm output_term(const GatheredElements& elements) const;
  [[nodiscard]] LedgerTerm sent_term(const GatheredElements& elements) const;
  [[nodiscard]] LedgerTerm casting_term(const GatheredElements& elements) const;
  [[nodiscard]] LedgerTerm input_term(const Expr& elements) const;
  [[nodiscard]] LedgerTerm gradients_term(const Expr& elements) const;
  [[nodiscard]] LedgerTerm shares_term(const Expr& elements) const;

  const Graph& graph_;
  const Job& job_;
  bool exist_ = false;
  bool flat_ = false;  // FSDP1
  bool ends_apart_ = false;
  bool loss_in_model_ = true;
  bool tied_ = false;
  bool sums_ = false;
  bool holds_ = false;
  bool makes_sums_ = false;  // the one backward that holds is the first: there are none before it
  bool adapts_ = false;
  Expr adapters_of_layer_;
  Expr trained_root_;  // outside the layers
  MicroStep micro_step_ = MicroStep::reducing;
  Reshard reshard_ = Reshard::always;
  bool makes_sent_ = false;  // the shares are cast, or come from the host, to be gathered
  Ends ends_;
  std::vector<ExpertOps> experts_;  // of each block; empty where none are apart
  Expr head_;                       // the weight that is registered last in the last unit
  Expr table_;                      // the input embedding
  Expr table_gradient_;             // and what its gradient has before it is reduced
  // Bytes of an element: gathered, reduced, and of a share of the gradients.
  std::int64_t gathered_ = 0;
  std::int64_t reduced_ = 0;
  std::int64_t share_ = 0;
};

}  // namespace memest
