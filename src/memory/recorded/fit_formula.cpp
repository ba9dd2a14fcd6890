#include "memest/memory/recorded/fit_formula.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

constexpr std::int64_t kHighestDegree = 3;
constexpr std::size_t kMostTerms = 4;
constexpr std::size_t kMostTermsBesideSteps = 2;
constexpr std::size_t kLeastPointsOfSteps = 5;
constexpr std::int64_t kMostTiles = 64;

/// ceil(product / length); also the least length of so many.
std::int64_t tiles_of(std::int64_t product, std::int64_t length) {
  return product / length + (product % length == 0 ? 0 : 1);
}

std::int64_t power(std::int64_t base, std::uint8_t exponent) {
  std::int64_t product = 1;
  for (std::uint8_t i = 0; i < exponent; ++i) product = checked_multiply(product, base);
  return product;
}

/// One less than the values that a number takes: as many determine no more.
std::vector<std::int64_t> highest_exponents(const std::vector<SizePoint>& points) {
  std::vector<std::int64_t> highest;
  for (std::size_t i = 0; i < points.front().size(); ++i) {
    std::set<std::int64_t> values;
    for (const SizePoint& point : points) values.insert(point[i]);
    highest.push_back(
        std::min(kHighestDegree, static_cast<std::int64_t>(values.size()) - std::int64_t{1}));
  }
  return highest;
}

/// Exponents up to `highest`, of which each is one, the lowest degree first.
std::vector<SizeExponents> all_exponents(const std::vector<std::int64_t>& highest) {
  std::vector<SizeExponents> all{SizeExponents()};
  for (const std::int64_t most : highest) {
    std::vector<SizeExponents> longer;
    for (const SizeExponents& begun : all) {
      for (std::int64_t exponent = 0; exponent <= most; ++exponent) {
        longer.push_back(begun);
        longer.back().push_back(static_cast<std::uint8_t>(exponent));
      }
    }
    all = std::move(longer);
  }
  std::erase_if(all, [](const SizeExponents& one) { return degree_of(one) > kHighestDegree; });
  std::ranges::stable_sort(all, std::ranges::less(), degree_of);
  return all;
}

/// Ascending choices of `count` out of `all` numbers, behind `begun`.
void add_choices(std::size_t count, std::size_t all, std::vector<std::size_t>& begun,
                 std::vector<std::vector<std::size_t>>& choices) {
  if (begun.size() == count) {
    choices.push_back(begun);
    return;
  }
  for (std::size_t next = begun.empty() ? 0 : begun.back() + 1; next < all; ++next) {
    begun.push_back(next);
    add_choices(count, all, begun, choices);
    begun.pop_back();
  }
}

/// A row a point: its monomials, and the size.
using Equations = std::vector<std::vector<Int128>>;

/// The determinant of two rows and columns; nothing where it leaves 128 bits.
std::optional<Int128> determinant_of(Int128 a, Int128 b, Int128 c, Int128 d) {
  Int128 left = 0;
  Int128 right = 0;
  Int128 determinant = 0;
  const bool overflows = __builtin_mul_overflow(a, d, &left) ||
                         __builtin_mul_overflow(b, c, &right) ||
                         __builtin_sub_overflow(left, right, &determinant);
  return overflows ? std::nullopt : std::optional(determinant);
}

/// Gauss and Jordan's elimination without fractions, after Bareiss: behind it each unknown is the
/// last column of its row over the value that is returned. Nothing where the equations do not
/// determine the unknowns, or contradict each other, or a number leaves 128 bits: no program's
/// sizes have such coefficients.
std::optional<Int128> eliminate(Equations& rows, std::size_t unknowns) {
  Int128 before = 1;
  for (std::size_t k = 0; k < unknowns; ++k) {
    std::size_t pivot = k;
    while (pivot < rows.size() && rows[pivot][k] == 0) ++pivot;
    if (pivot == rows.size()) return std::nullopt;
    std::swap(rows[k], rows[pivot]);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i == k) continue;
      const Int128 factor = rows[i][k];
      for (std::size_t j = 0; j <= unknowns; ++j) {
        const auto crossed = determinant_of(rows[k][k], rows[k][j], factor, rows[i][j]);
        if (!crossed) return std::nullopt;
        rows[i][j] = *crossed / before;
      }
    }
    before = rows[k][k];
  }
  for (std::size_t i = unknowns; i < rows.size(); ++i) {
    if (rows[i][unknowns] != 0) return std::nullopt;
  }
  return before;
}

Int128 common_divisor(Int128 left, Int128 right) {
  while (right != 0) left = std::exchange(right, left % right);
  return left < 0 ? -left : left;
}

}  // namespace

FormulaFitter::FormulaFitter(const std::vector<SizePoint>& points) {
  units_.assign(points.front().size(), 0);
  for (const SizePoint& point : points) {
    for (std::size_t i = 0; i < point.size(); ++i) units_[i] = std::gcd(units_[i], point[i]);
  }
  exponents_ = all_exponents(highest_exponents(points));
  for (const SizeExponents& exponents : exponents_) {
    std::vector<std::int64_t> values;
    for (const SizePoint& point : points) {
      std::int64_t product = 1;
      for (std::size_t i = 0; i < point.size(); ++i) {
        product = checked_multiply(product, power(point[i] / units_[i], exponents[i]));
      }
      values.push_back(product);
    }
    values_.push_back(std::move(values));
  }
  const std::size_t most = std::min(kMostTerms, std::max<std::size_t>(2, points.size() - 1));
  for (std::size_t count = 1; count <= std::min(most, exponents_.size()); ++count) {
    std::vector<Monomials> choices;
    Monomials begun;
    add_choices(count, exponents_.size(), begun, choices);
    std::ranges::stable_sort(choices, std::ranges::less(), [&](const Monomials& choice) {
      std::int64_t degree = 0;
      for (const std::size_t monomial : choice) degree += degree_of(exponents_[monomial]);
      return degree;
    });
    candidates_.insert(candidates_.end(), choices.begin(), choices.end());
  }
  for (std::size_t i = 0; i < exponents_.size(); ++i) {
    if (degree_of(exponents_[i]) > 0) add_tiles(i, points);
  }
  std::ranges::stable_sort(tiles_, std::ranges::greater(),
                           [](const Tiles& tiles) { return tiles.least; });
}

std::optional<SizeFormula> FormulaFitter::fit(const std::vector<std::int64_t>& sizes) const {
  // A polynomial of three terms gives many a size in steps at a few points, which it is not.
  for (std::size_t terms = 1; terms <= kMostTerms; ++terms) {
    if (auto formula = fit_terms(terms, sizes)) return formula;
    if (terms == 1) continue;
    if (auto formula = terms == 2 ? fit_steps(0, sizes) : std::nullopt) return formula;
    if (auto formula = fit_steps(terms - 1, sizes)) return formula;
  }
  return std::nullopt;
}

std::optional<SizeFormula> FormulaFitter::fit_terms(std::size_t terms,
                                                    const std::vector<std::int64_t>& sizes) const {
  for (const Monomials& candidate : candidates_) {
    if (candidate.size() != terms) continue;
    if (auto formula = solve(candidate, nullptr, sizes)) return formula;
  }
  return std::nullopt;
}

void FormulaFitter::add_tiles(std::size_t monomial, const std::vector<SizePoint>& points) {
  std::vector<std::int64_t> products;
  for (const SizePoint& point : points) {
    products.push_back(SizeFormula({{1, exponents_[monomial]}}).evaluate(point).value());
  }
  const std::int64_t highest = *std::ranges::max_element(products);
  // The shortest tile of each count: between two of them no count changes.
  std::set<std::int64_t> lengths;
  for (const std::int64_t product : products) {
    for (std::int64_t count = 1; count <= kMostTiles; ++count) {
      const std::int64_t length = tiles_of(product, count);
      if (tiles_of(highest, length) <= kMostTiles) lengths.insert(length);
    }
  }
  for (auto length = lengths.begin(); length != lengths.end(); ++length) {
    if (std::next(length) == lengths.end()) break;  // one tile of each
    Tiles tiles{monomial, *length, *std::next(length) - 1, {}};
    for (const std::int64_t product : products) tiles.counts.push_back(tiles_of(product, *length));
    tiles_.push_back(std::move(tiles));
  }
}

std::optional<SizeFormula> FormulaFitter::fit_steps(std::size_t terms,
                                                    const std::vector<std::int64_t>& sizes) const {
  // Two terms, a coefficient and a length: fewer than the points.
  if (terms > kMostTermsBesideSteps || sizes.size() < kLeastPointsOfSteps) return std::nullopt;
  std::vector<Monomials> beside{Monomials()};
  if (terms > 0) beside = candidates_;
  for (const Monomials& candidate : beside) {
    if (candidate.size() != terms) continue;
    for (const Tiles& tiles : tiles_) {
      if (auto formula = solve(candidate, &tiles, sizes)) return formula;
    }
  }
  return std::nullopt;
}

std::optional<SizeFormula> FormulaFitter::solve(const Monomials& monomials, const Tiles* tiles,
                                                const std::vector<std::int64_t>& sizes) const {
  const std::size_t unknowns = monomials.size() + (tiles == nullptr ? 0 : 1);
  Equations rows(sizes.size());
  for (std::size_t point = 0; point < sizes.size(); ++point) {
    std::vector<Int128>& row = rows[point];
    row.reserve(unknowns + 1);
    for (const std::size_t monomial : monomials) row.emplace_back(values_[monomial][point]);
    if (tiles != nullptr) row.emplace_back(tiles->counts[point]);
    row.emplace_back(sizes[point]);
  }
  const std::optional<Int128> determinant = eliminate(rows, unknowns);
  if (!determinant) return std::nullopt;
  SizeFormula formula;
  for (std::size_t i = 0; i < monomials.size(); ++i) {
    const SizeExponents& exponents = exponents_[monomials[i]];
    Int128 denominator = *determinant;
    for (std::size_t k = 0; k < exponents.size(); ++k) {
      denominator = checked_multiply(denominator, Int128{power(units_[k], exponents[k])});
    }
    Int128 divisor = common_divisor(rows[i][unknowns], denominator);
    if (denominator < 0) divisor = -divisor;
    const std::int64_t numerator = narrow_to_int64(rows[i][unknowns] / divisor);
    formula =
        formula + SizeFormula({{numerator, exponents}}, narrow_to_int64(denominator / divisor));
  }
  if (tiles == nullptr) return formula;
  const bool shrinks = std::ranges::any_of(formula.terms(), [](const SizeFormula::Term& term) {
    return term.coefficient < 0 && degree_of(term.exponents) > 0;  // no workspace does
  });
  if (shrinks) return std::nullopt;
  const Int128 each = rows[monomials.size()][unknowns];
  if (formula.denominator() != 1 || each % *determinant != 0) return std::nullopt;
  const std::int64_t coefficient = narrow_to_int64(each / *determinant);
  if (coefficient <= 0) return std::nullopt;
  return SizeFormula(formula.terms(), 1,
                     {{coefficient, exponents_[tiles->monomial], tiles->least, tiles->most}});
}

}  // namespace memest
