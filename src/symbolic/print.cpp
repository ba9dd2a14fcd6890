// How a formula is written: the common factor in front, fractions last, a letter or its value for
// every symbol.

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "memest/symbolic/expr.hpp"

namespace memest {
namespace {

using Exponents = std::array<std::int8_t, kSymbolCount>;
using SymbolText = std::function<std::string(Symbol)>;

constexpr std::string_view kTimes = "·";

std::string superscript(int power) {
  static constexpr std::array<std::string_view, 10> kDigits = {"⁰", "¹", "²", "³", "⁴",
                                                               "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string result;
  for (const char digit : std::to_string(power))
    result += kDigits[static_cast<std::size_t>(digit - '0')];
  return result;
}

void multiply(std::string& text, const std::string& factor) {
  if (!text.empty()) text += kTimes;
  text += factor;
}

/// The factors of the symbols whose exponents have sign `sign`.
std::string symbol_product(const Exponents& exponents, int sign, const SymbolText& symbol_text) {
  std::string result;
  for (std::size_t i = 0; i < kSymbolCount; ++i) {
    const int power = sign * exponents[i];
    if (power <= 0) continue;
    multiply(result, symbol_text(static_cast<Symbol>(i)) + (power > 1 ? superscript(power) : ""));
  }
  return result;
}

/// |coefficient| · symbols, without sign: "5·a·s/(h·t)", "3/2", "Φ".
std::string monomial_text(const Monomial& monomial, const SymbolText& symbol_text) {
  const std::int64_t numerator = monomial.coefficient.numerator();
  const std::int64_t denominator = monomial.coefficient.denominator();
  std::string above = symbol_product(monomial.exponents, 1, symbol_text);
  std::string below = symbol_product(monomial.exponents, -1, symbol_text);
  const std::string magnitude = std::to_string(numerator < 0 ? -numerator : numerator);
  if (above.empty()) {
    above = magnitude;
  } else if (magnitude != "1") {
    above = magnitude + std::string(kTimes) + above;
  }
  if (denominator != 1) {
    const std::string divisor = std::to_string(denominator);
    below = below.empty() ? divisor : divisor + std::string(kTimes) + below;
  }
  if (below.empty()) return above;
  const bool several = below.find(kTimes) != std::string::npos;
  return above + (several ? "/(" + below + ")" : "/" + below);
}

std::string sum_text(const std::vector<Monomial>& monomials, const SymbolText& symbol_text) {
  std::string result;
  for (const Monomial& monomial : monomials) {
    const bool negative = monomial.coefficient.numerator() < 0;
    if (result.empty()) {
      if (negative) result += "-";
    } else {
      result += negative ? " - " : " + ";
    }
    result += monomial_text(monomial, symbol_text);
  }
  return result;
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

/// factor·(rest of each monomial), fractions last; a plain sum where there is no factor.
std::string factored(const std::vector<Monomial>& monomials, const SymbolText& symbol_text) {
  if (monomials.size() == 1) return sum_text(monomials, symbol_text);
  const Exponents factor = common_factor(monomials);
  std::vector<Monomial> inner = monomials;
  for (Monomial& monomial : inner) {
    for (std::size_t i = 0; i < kSymbolCount; ++i) {
      monomial.exponents[i] = static_cast<std::int8_t>(monomial.exponents[i] - factor[i]);
    }
  }
  std::stable_partition(inner.begin(), inner.end(),
                        [](const Monomial& monomial) { return !has_fraction(monomial); });
  const std::string front = symbol_product(factor, 1, symbol_text);
  if (front.empty()) return sum_text(inner, symbol_text);
  return front + std::string(kTimes) + "(" + sum_text(inner, symbol_text) + ")";
}

std::string written(std::vector<Monomial> monomials, const SymbolText& symbol_text) {
  if (monomials.empty()) return "0";
  const std::vector<Monomial> strangers = take_strangers(monomials);
  std::string front = factored(monomials, symbol_text);
  if (strangers.empty()) return front;
  const std::string rest = sum_text(strangers, symbol_text);
  return front + (rest[0] == '-' ? " - " + rest.substr(1) : " + " + rest);
}

}  // namespace

std::string Expr::text() const {
  return written(monomials_, [](Symbol symbol) { return std::string(letter(symbol)); });
}

std::string Expr::substituted(const Bindings& bindings) const {
  return written(monomials_,
                 [&bindings](Symbol symbol) { return std::to_string(bindings.at(symbol)); });
}

}  // namespace memest
