// Bytes that autograd keeps of blocks outside checkpoints, between their forward and backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "memory/ledger/ledger_gradients.hpp"
#include "memory/ledger/ledger_passes.hpp"
#include "memory/ledger/ledger_terms.hpp"

namespace memest {

inline constexpr const char* kSavedSource = "PyTorch 2.11: what autograd saves, each storage once";

/// Every site asks for it of all blocks before it: formulas are made once for each count of runs.
class KeptBlocks {
 public:
  /// `terms` outlives this.
  KeptBlocks(const Graph& graph, const LedgerPasses& passes, const LayerCount& layer_count,
             LedgerTerms& terms);

  /// Autocast's copies of the weights of so many of a block's runs.
  [[nodiscard]] Expr casts(std::size_t block, std::int64_t runs) const;
  /// Adds the term of all else that they keep, if there is any.
  void add_to(std::vector<std::uint16_t>& alive, std::size_t block, std::int64_t runs);

 private:
  struct Kept {
    const std::string* name = nullptr;
    Expr casts;
    Expr others;
    std::vector<std::pair<std::int64_t, std::uint16_t>> terms;  // by the count of runs
  };

  LayerCount layer_count_;
  LedgerTerms& terms_;
  std::vector<Kept> blocks_;
};

}  // namespace memest
