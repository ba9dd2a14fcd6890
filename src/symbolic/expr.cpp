#include "memest/symbolic/expr.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

Monomial product(const Monomial& left, const Monomial& right) {
  Monomial result{left.coefficient * right.coefficient, left.exponents};
  for (std::size_t i = 0; i < kSymbolCount; ++i) {
    result.exponents[i] = static_cast<std::int8_t>(result.exponents[i] + right.exponents[i]);
  }
  return result;
}

/// Adds `sign`·right to left; both sorted by falling exponents.
std::vector<Monomial> merged(const std::vector<Monomial>& left, const std::vector<Monomial>& right,
                             int sign) {
  std::vector<Monomial> result;
  result.reserve(left.size() + right.size());
  auto l = left.begin();
  auto r = right.begin();
  while (l != left.end() || r != right.end()) {
    if (r == right.end() || (l != left.end() && l->exponents > r->exponents)) {
      result.push_back(*l++);
    } else if (l == left.end() || r->exponents > l->exponents) {
      result.push_back(*r++);
      if (sign < 0) result.back().coefficient = Rational(-1) * result.back().coefficient;
    } else {
      const Rational sum =
          sign < 0 ? l->coefficient - r->coefficient : l->coefficient + r->coefficient;
      if (sum.numerator() != 0) result.push_back({sum, l->exponents});
      ++l;
      ++r;
    }
  }
  return result;
}

/// Adds `term` to `sum`, sorted by falling exponents.
void insert(std::vector<Monomial>& sum, const Monomial& term) {
  const auto place = std::find_if(sum.begin(), sum.end(), [&term](const Monomial& monomial) {
    return monomial.exponents <= term.exponents;
  });
  if (place == sum.end() || place->exponents != term.exponents) {
    sum.insert(place, term);
    return;
  }
  place->coefficient = place->coefficient + term.coefficient;
  if (place->coefficient.numerator() == 0) sum.erase(place);
}

Monomial reciprocal(const Monomial& monomial) {
  Monomial result{Rational(1) / monomial.coefficient, {}};
  for (std::size_t i = 0; i < kSymbolCount; ++i) {
    result.exponents[i] = static_cast<std::int8_t>(-monomial.exponents[i]);
  }
  return result;
}

Int128 greatest_common_divisor(Int128 left, Int128 right) {
  while (right != 0) {
    const Int128 rest = left % right;
    left = right;
    right = rest;
  }
  return left < 0 ? -left : left;
}

/// An exact fraction of 128-bit integers, denominator positive.
struct Fraction {
  Int128 numerator = 0;
  Int128 denominator = 1;
};

Fraction value_of(const Monomial& monomial, const Bindings& bindings) {
  Fraction result{monomial.coefficient.numerator(), monomial.coefficient.denominator()};
  for (std::size_t i = 0; i < kSymbolCount; ++i) {
    const int exponent = monomial.exponents[i];
    if (exponent == 0) continue;
    const Symbol symbol = static_cast<Symbol>(i);
    expect(bindings.has(symbol), "every symbol of an evaluated formula has a value");
    const Int128 value = bindings.at(symbol);
    for (int power = 0; power < exponent; ++power)
      result.numerator = checked_multiply(result.numerator, value);
    for (int power = 0; power > exponent; --power)
      result.denominator = checked_multiply(result.denominator, value);
  }
  return result;
}

void add(Fraction& total, Fraction term) {
  if (term.denominator == total.denominator) {
    total.numerator = checked_add(total.numerator, term.numerator);
  } else {
    total.numerator = checked_add(checked_multiply(total.numerator, term.denominator),
                                  checked_multiply(term.numerator, total.denominator));
    total.denominator = checked_multiply(total.denominator, term.denominator);
  }
  if (total.denominator != 1) {
    const Int128 divisor = greatest_common_divisor(total.numerator, total.denominator);
    if (divisor > 1) {
      total.numerator /= divisor;
      total.denominator /= divisor;
    }
  }
}

}  // namespace

Expr::Expr(std::int64_t constant) : Expr(Rational(constant)) {}

Expr::Expr(Rational constant) {
  if (constant.numerator() != 0) monomials_.push_back({constant, {}});
}

Expr::Expr(Symbol symbol) {
  Monomial monomial{1, {}};
  monomial.exponents[static_cast<std::size_t>(symbol)] = 1;
  monomials_.push_back(monomial);
}

Expr& Expr::operator+=(const Expr& other) {
  if (other.monomials_.size() == 1) {
    insert(monomials_, Monomial(other.monomials_[0]));
  } else {
    monomials_ = merged(monomials_, other.monomials_, 1);
  }
  return *this;
}

Expr& Expr::operator-=(const Expr& other) {
  monomials_ = merged(monomials_, other.monomials_, -1);
  return *this;
}

Expr& Expr::operator*=(const Expr& other) {
  if (other.monomials_.size() != 1) return *this = *this * other;
  // A product with one monomial keeps the order: exponents shift alike.
  const Monomial factor = other.monomials_[0];
  for (Monomial& monomial : monomials_) monomial = product(monomial, factor);
  return *this;
}

Expr operator*(const Expr& left, const Expr& right) {
  Expr result;
  for (const Monomial& factor : right.monomials_) {
    Expr partial = left;
    for (Monomial& monomial : partial.monomials_) monomial = product(monomial, factor);
    if (right.monomials_.size() == 1) return partial;
    result += partial;
  }
  return result;
}

Expr operator/(const Expr& left, const Expr& right) {
  expect(right.monomials_.size() == 1, "a formula divides by a single monomial");
  Expr divisor;
  divisor.monomials_.push_back(reciprocal(right.monomials_[0]));
  return left * divisor;
}

Expr Expr::substitute(Symbol symbol, const Expr& formula) const {
  const std::size_t index = static_cast<std::size_t>(symbol);
  Expr result;
  for (const Monomial& monomial : monomials_) {
    Monomial rest = monomial;
    rest.exponents[index] = 0;
    Expr term;
    term.monomials_.push_back(rest);
    for (int power = 0; power < monomial.exponents[index]; ++power) term *= formula;
    for (int power = 0; power > monomial.exponents[index]; --power) term = term / formula;
    result += term;
  }
  return result;
}

bool Expr::uses(Symbol symbol) const {
  return std::any_of(monomials_.begin(), monomials_.end(), [symbol](const Monomial& monomial) {
    return monomial.exponents[static_cast<std::size_t>(symbol)] != 0;
  });
}

Int128 Expr::evaluate(const Bindings& bindings) const {
  Fraction total;
  for (const Monomial& monomial : monomials_) add(total, value_of(monomial, bindings));
  if (total.denominator == 0) unreachable("no symbol that a formula divides by is zero");
  const Int128 quotient = total.numerator / total.denominator;
  return total.numerator % total.denominator > 0 ? quotient + 1 : quotient;
}

}  // namespace memest
