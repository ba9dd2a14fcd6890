// The ledger under construction: terms once each, instants that can be the peak, everything bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "memest/memory/ledger.hpp"
#include "memory/engine/sites.hpp"
#include "memory/moments/moments.hpp"

namespace memest {

class LedgerTerms {
 public:
  /// Binds every symbol that a ledger uses.
  LedgerTerms(const Graph& graph, const Job& job, std::int64_t pipeline_rank = 0);

  /// The index of the term; an equal one is not added twice.
  std::uint16_t add(LedgerTerm term);

  /// `kind` groups the instants of which the ledger shows the largest even where it is no peak.
  void instant(std::string name, std::string kind, std::vector<std::uint16_t> terms);

  /// A term outside the allocator.
  void outside(LedgerTerm term);

  [[nodiscard]] SizePolynomial bound(const Expr& formula) const {
    return {formula, ledger_.bindings};
  }

  /// Without the instants that are nowhere the peak, and without the terms that only they have.
  Ledger take(LedgerScope scope = LedgerScope::sizes) &&;

 private:
  /// The job's own sizes, then others that a search may ask for.
  [[nodiscard]] std::vector<Sizes> size_grid() const;
  /// The instants that are the largest of all somewhere on the grid, or of their kind at the job's
  /// own sizes.
  [[nodiscard]] std::vector<bool> possible_peaks() const;
  void keep_largest_of_kinds(const std::vector<std::int64_t>& totals,
                             std::vector<bool>& kept) const;
  void keep_instants(const std::vector<bool>& kept);
  void drop_unused_terms();

  Ledger ledger_;
  std::vector<std::string> kinds_;
  std::unordered_multimap<std::size_t, std::uint16_t> by_hash_;  ///< of name and formula
};

/// The values of kSizeSymbols in `bindings`.
Sizes sizes_in(const Bindings& bindings);

}  // namespace memest
