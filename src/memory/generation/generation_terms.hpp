// The tensors of generate() around the model, as formulas: ids, masks and positions, the scores
// from which the next tokens are chosen, and the beams.
#pragma once

#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/spec/inference.hpp"

namespace memest {

class GenerationTerms {
 public:
  GenerationTerms(const InferenceSpec& inference, const Graph& graph);

  /// While the prompts' forward runs; the prompts themselves stand elsewhere.
  [[nodiscard]] std::vector<LedgerTerm> around_prompts() const;
  /// While a pass runs with which sequences have `tokens` tokens.
  [[nodiscard]] std::vector<LedgerTerm> around_pass(const Expr& tokens) const;
  /// At the most while the token behind `tokens` is chosen.
  [[nodiscard]] std::vector<LedgerTerm> of_choice(const Expr& tokens) const;
  /// While the cache is put in the chosen beams' order.
  [[nodiscard]] std::vector<LedgerTerm> of_update(const Expr& tokens) const;
  /// At the most while beams that ended are chosen among those and the best candidates.
  [[nodiscard]] std::vector<LedgerTerm> of_merge(const Expr& tokens) const;

 private:
  [[nodiscard]] LedgerTerm ids(const Expr& bytes) const;
  [[nodiscard]] LedgerTerm scores(const Expr& bytes) const;
  [[nodiscard]] LedgerTerm beams(const Expr& bytes) const;
  /// Bytes of generate()'s own arguments: the batch beside the prompts' ids, and what it makes
  /// of them.
  [[nodiscard]] Expr arguments() const;
  /// Bytes of one set of sequences and of one of the beams' indices, as long as they may get.
  [[nodiscard]] Expr sequences() const;
  [[nodiscard]] Expr indices() const;

  const InferenceSpec& inference_;
  Expr b_ = Symbol::micro_batch;
  Expr s_ = Symbol::seq_len;
  Expr v_ = Symbol::vocab_size;
  Expr logits_bytes_;  ///< of one number
  bool searches_;
};

}  // namespace memest
