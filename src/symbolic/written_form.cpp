// The order in which a formula is written: the common factor in front, fractions last.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "memest/symbolic/formula.hpp"

namespace memest {
namespace {

using Kind = Formula::Kind;
using Exponents = std::array<std::int8_t, kSymbolCount>;

Formula number_leaf(std::int64_t number) { return {.kind = Kind::number, .number = number}; }

/// One part stands for itself.
Formula joined(Kind kind, std::vector<Formula> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  return {.kind = kind, .parts = std::move(parts)};
}

/// The factors of the symbols whose exponents have sign `sign`.
std::vector<Formula> letters(const Exponents& exponents, int sign) {
  std::vector<Formula> factors;
  for (std::size_t i = 0; i < kSymbolCount; ++i) {
    const int power = sign * exponents[i];
    if (power <= 0) continue;
    Formula letter{.kind = Kind::letter, .symbol = static_cast<Symbol>(i)};
    if (power > 1) letter = {.kind = Kind::power, .number = power, .parts = {std::move(letter)}};
    factors.push_back(std::move(letter));
  }
  return factors;
}

/// coefficient · symbols: "5·a·s/(h·t)", "3/2", "-Φ".
Formula monomial_form(const Monomial& monomial) {
  const std::int64_t numerator = monomial.coefficient.numerator();
  const std::int64_t denominator = monomial.coefficient.denominator();
  const std::int64_t magnitude = numerator < 0 ? -numerator : numerator;
  std::vector<Formula> above = letters(monomial.exponents, 1);
  if (above.empty() || magnitude != 1) above.insert(above.begin(), number_leaf(magnitude));
  std::vector<Formula> below = letters(monomial.exponents, -1);
  if (denominator != 1) below.insert(below.begin(), number_leaf(denominator));
  Formula form = joined(Kind::product, std::move(above));
  if (!below.empty()) {
    form = {.kind = Kind::quotient,
            .parts = {std::move(form), joined(Kind::product, std::move(below))}};
  }
  if (numerator < 0) form = {.kind = Kind::negative, .parts = {std::move(form)}};
  return form;
}

std::vector<Formula> monomial_forms(const std::vector<Monomial>& monomials) {
  std::vector<Formula> parts;
  for (const Monomial& monomial : monomials) parts.push_back(monomial_form(monomial));
  return parts;
}

/// Whether the monomial without `taken` is a bare number.
bool is_number_beside(const Monomial& monomial, const Exponents& taken) {
  return monomial.exponents == taken;
}

/// The symbol of exponent 1 that most monomials share, at least half of them, that none divides by
/// and whose pulling out leaves no number over it; kSymbolCount for none.
std::size_t most_shared(const std::vector<Monomial>& monomials, const Exponents& taken) {
  std::size_t best = kSymbolCount;
  std::size_t best_count = (monomials.size() - 1) / 2;
  for (std::size_t i = 0; i < kSymbolCount; ++i) {
    if (taken[i] != 0) continue;
    std::size_t count = 0;
    bool can_be_pulled = true;
    for (const Monomial& monomial : monomials) {
      const int exponent = monomial.exponents[i];
      count += exponent == 1 ? 1 : 0;
      can_be_pulled =
          can_be_pulled && (exponent == 1 || (exponent == 0 && !is_number_beside(monomial, taken)));
    }
    if (can_be_pulled && count > best_count) {
      best = i;
      best_count = count;
    }
  }
  return best;
}

/// The lowest positive power of every symbol that all of `monomials` share.
Exponents shared_powers(const std::vector<Monomial>& monomials) {
  Exponents shared{};
  for (std::size_t i = 0; i < kSymbolCount; ++i) {
    int least = monomials[0].exponents[i];
    for (const Monomial& monomial : monomials) least = std::min<int>(least, monomial.exponents[i]);
    if (least > 0) shared[i] = static_cast<std::int8_t>(least);
  }
  return shared;
}

std::ptrdiff_t letters_of(const Exponents& exponents) {
  return std::count_if(exponents.begin(), exponents.end(), [](std::int8_t e) { return e != 0; });
}

/// The factor in front of the brackets: the symbols of every monomial, and one more that most
/// share (34·h + 5·a·s is written h·(34 + 5·a·s/h)). A single shared letter reads better inside:
/// 2·Φ + 12·Φ/D.
Exponents common_factor(const std::vector<Monomial>& monomials) {
  Exponents factor = shared_powers(monomials);
  if (letters_of(factor) < 2) return Exponents{};
  const std::size_t more = most_shared(monomials, factor);
  if (more < kSymbolCount) factor[more] = 1;
  return factor;
}

/// Moves monomials without one of two letters that three quarters of all share out of `monomials`,
/// so that the others have a factor to write in front: b·s·L·(16·h + 8·f + 8) + 16·L.
std::vector<Monomial> take_strangers(std::vector<Monomial>& monomials) {
  const auto is_common = [&](std::size_t i) {
    const auto with =
        std::count_if(monomials.begin(), monomials.end(),
                      [i](const Monomial& monomial) { return monomial.exponents[i] > 0; });
    return 4 * static_cast<std::size_t>(with) >= 3 * monomials.size();
  };
  std::vector<std::size_t> common;
  for (std::size_t i = 0; i < kSymbolCount; ++i) {
    if (is_common(i)) common.push_back(i);
  }
  const auto stranger = std::stable_partition(
      monomials.begin(), monomials.end(), [&common](const Monomial& monomial) {
        return std::all_of(common.begin(), common.end(),
                           [&monomial](std::size_t i) { return monomial.exponents[i] > 0; });
      });
  const bool worth_it = common.size() >= 2 && std::distance(monomials.begin(), stranger) >= 2;
  if (!worth_it) return {};
  std::vector<Monomial> strangers(stranger, monomials.end());
  monomials.erase(stranger, monomials.end());
  return strangers;
}

bool has_fraction(const Monomial& monomial) {
  return std::any_of(monomial.exponents.begin(), monomial.exponents.end(),
                     [](std::int8_t e) { return e < 0; });
}

/// factor·(rest of each monomial), fractions last; the parts of a plain sum where there is no
/// factor.
std::vector<Formula> factored(const std::vector<Monomial>& monomials) {
  if (monomials.size() == 1) return monomial_forms(monomials);
  const Exponents factor = common_factor(monomials);
  std::vector<Monomial> inner = monomials;
  for (Monomial& monomial : inner) {
    for (std::size_t i = 0; i < kSymbolCount; ++i) {
      monomial.exponents[i] = static_cast<std::int8_t>(monomial.exponents[i] - factor[i]);
    }
  }
  std::stable_partition(inner.begin(), inner.end(),
                        [](const Monomial& monomial) { return !has_fraction(monomial); });
  std::vector<Formula> front = letters(factor, 1);
  std::vector<Formula> sum = monomial_forms(inner);
  if (front.empty()) return sum;
  front.push_back(joined(Kind::sum, std::move(sum)));
  return {joined(Kind::product, std::move(front))};
}

}  // namespace

Formula written_form(const Expr& expr) {
  std::vector<Monomial> monomials = expr.monomials();
  if (monomials.empty()) return number_leaf(0);
  const std::vector<Monomial> strangers = take_strangers(monomials);
  std::vector<Formula> parts = factored(monomials);
  for (Formula& stranger : monomial_forms(strangers)) parts.push_back(std::move(stranger));
  return joined(Kind::sum, std::move(parts));
}

}  // namespace memest
