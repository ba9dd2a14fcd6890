// The simplest polynomial that gives a size at every recorded point, exactly; or a short one and
// steps, as the workspaces of kernels have that take so much for each block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "memest/symbolic/size_formula.hpp"

namespace memest {

/// Tries sets of monomials that the points tell apart, the simplest first: few terms before many, a
/// low degree before a high one. A formula has at most four terms of total degree three, and fewer
/// than there are points unless those are two; or up to two terms with whole coefficients and so
/// much for each of up to 64 tiles, which stands before a polynomial of as many unknowns.
class FormulaFitter {
 public:
  /// Points of one length, each once, every number positive. Throws OverflowError.
  explicit FormulaFitter(const std::vector<SizePoint>& points);

  /// The sizes are in the order of the points. Nothing where no formula is exact at all of them.
  [[nodiscard]] std::optional<SizeFormula> fit(const std::vector<std::int64_t>& sizes) const;

 private:
  using Monomials = std::vector<std::size_t>;  // indices into exponents_

  /// How often a product begins a tile, by point, of every tile within two lengths.
  struct Tiles {
    std::size_t monomial = 0;
    std::int64_t least = 1;
    std::int64_t most = 1;
    std::vector<std::int64_t> counts;
  };

  void add_tiles(std::size_t monomial, const std::vector<SizePoint>& points);
  [[nodiscard]] std::optional<SizeFormula> solve(const Monomials& monomials, const Tiles* tiles,
                                                 const std::vector<std::int64_t>& sizes) const;
  [[nodiscard]] std::optional<SizeFormula> fit_terms(std::size_t terms,
                                                     const std::vector<std::int64_t>& sizes) const;
  [[nodiscard]] std::optional<SizeFormula> fit_steps(std::size_t terms,
                                                     const std::vector<std::int64_t>& sizes) const;

  std::vector<std::int64_t> units_;  // by number: what divides all of its values
  std::vector<SizeExponents> exponents_;
  std::vector<std::vector<std::int64_t>> values_;  // by monomial and point, in units
  std::vector<Monomials> candidates_;
  std::vector<Tiles> tiles_;  // few before many
};

}  // namespace memest
