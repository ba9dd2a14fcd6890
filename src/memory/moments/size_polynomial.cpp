#include "memest/memory/size_polynomial.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "memest/diag/expect.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

bool is_size(std::size_t symbol) {
  return std::find(kSizeSymbols.begin(), kSizeSymbols.end(), static_cast<Symbol>(symbol)) !=
         kSizeSymbols.end();
}

/// The coefficient of `monomial` with everything bound but the sizes.
Rational bound_coefficient(const Monomial& monomial, const Bindings& bindings) {
  Rational result = monomial.coefficient;
  for (std::size_t i = 0; i < kSymbolCount; ++i) {
    if (monomial.exponents[i] == 0 || is_size(i)) continue;
    expect(bindings.has(static_cast<Symbol>(i)), "every symbol of a ledger has a value");
    const Rational value(bindings.at(static_cast<Symbol>(i)));
    for (int power = 0; power < monomial.exponents[i]; ++power) result = result * value;
    for (int power = 0; power > monomial.exponents[i]; --power) result = result / value;
  }
  return result;
}

}  // namespace

SizePolynomial::SizePolynomial(const Expr& formula, const Bindings& bindings) {
  std::vector<Rational> coefficients;
  for (const memest::Monomial& monomial : formula.monomials()) {
    Monomial sized;
    for (std::size_t i = 0; i < kSizeSymbols.size(); ++i) {
      const int exponent = monomial.exponents[static_cast<std::size_t>(kSizeSymbols[i])];
      expect(exponent >= 0, "a ledger's formula never divides by a size");
      sized.exponents[i] = static_cast<std::uint8_t>(exponent);
    }
    const Rational coefficient = bound_coefficient(monomial, bindings);
    const auto same = std::find_if(monomials_.begin(), monomials_.end(), [&](const Monomial& m) {
      return m.exponents == sized.exponents;
    });
    if (same == monomials_.end()) {
      monomials_.push_back(sized);
      coefficients.push_back(coefficient);
    } else {
      Rational& sum = coefficients[static_cast<std::size_t>(same - monomials_.begin())];
      sum = sum + coefficient;
    }
  }
  // One common denominator: integers are evaluated, and rounding happens once, at the end.
  for (const Rational& coefficient : coefficients) {
    denominator_ =
        checked_multiply(denominator_, coefficient.denominator() /
                                           std::gcd(denominator_, coefficient.denominator()));
  }
  for (std::size_t i = 0; i < monomials_.size(); ++i) {
    monomials_[i].coefficient =
        checked_multiply(coefficients[i].numerator(), denominator_ / coefficients[i].denominator());
  }
}

std::int64_t SizePolynomial::evaluate(const Sizes& sizes) const {
  std::int64_t total = 0;
  for (const Monomial& monomial : monomials_) {
    std::int64_t value = monomial.coefficient;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      for (int power = 0; power < monomial.exponents[i]; ++power) {
        value = checked_multiply(value, sizes[i]);
      }
    }
    total = checked_add(total, value);
  }
  // Rounded up: C++ cuts a negative quotient towards zero, which is up already.
  if (denominator_ == 1) return total;
  return total / denominator_ + (total % denominator_ > 0 ? 1 : 0);
}

bool SizePolynomial::dominates(const SizePolynomial& other) const {
  const auto coefficient = [](const SizePolynomial& polynomial, const Monomial& like) {
    for (const Monomial& monomial : polynomial.monomials_) {
      if (monomial.exponents == like.exponents) return monomial.coefficient;
    }
    return std::int64_t{0};
  };
  // Sizes are positive, so no smaller coefficient anywhere is enough; it is not necessary, and a
  // polynomial that is larger for other reasons is not recognized.
  const auto at_least = [&](const Monomial& like) {
    return Int128{coefficient(*this, like)} * other.denominator_ >=
           Int128{coefficient(other, like)} * denominator_;
  };
  return std::all_of(monomials_.begin(), monomials_.end(), at_least) &&
         std::all_of(other.monomials_.begin(), other.monomials_.end(), at_least);
}

bool SizePolynomial::is_constant() const {
  return std::all_of(monomials_.begin(), monomials_.end(), [](const Monomial& monomial) {
    return std::all_of(monomial.exponents.begin(), monomial.exponents.end(),
                       [](std::uint8_t exponent) { return exponent == 0; });
  });
}

}  // namespace memest
