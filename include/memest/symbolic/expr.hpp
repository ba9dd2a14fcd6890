// A formula: a polynomial over symbols with exact rational coefficients; exponents may be negative,
// so that 24/t and 5·a·s/(h·t) are formulas too. It evaluates to a number and prints as text from
// the same object, so the formula that the user reads is the formula that was computed. Like terms
// are combined on construction: two equal formulas compare equal.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "memest/symbolic/rational.hpp"
#include "memest/symbolic/symbol.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// coefficient · Π symbol^exponent.
struct Monomial {
  Rational coefficient;
  std::array<std::int8_t, kSymbolCount> exponents{};

  friend bool operator==(const Monomial&, const Monomial&) = default;
};

class Expr {
 public:
  Expr() = default;             ///< zero
  Expr(std::int64_t constant);  // NOLINT(google-explicit-constructor): numbers are formulas
  Expr(Rational constant);      // NOLINT(google-explicit-constructor)
  Expr(Symbol symbol);          // NOLINT(google-explicit-constructor): letters are formulas

  Expr& operator+=(const Expr& other);
  Expr& operator-=(const Expr& other);
  Expr& operator*=(const Expr& other);
  friend Expr operator+(Expr left, const Expr& right) { return left += right; }
  friend Expr operator-(Expr left, const Expr& right) { return left -= right; }
  friend Expr operator*(const Expr& left, const Expr& right);
  /// Division by a single monomial other than zero (a number, a symbol, a product of them);
  /// InternalError otherwise.
  friend Expr operator/(const Expr& left, const Expr& right);
  friend bool operator==(const Expr&, const Expr&) = default;

  /// Replaces a symbol by a formula; a negative power of it needs a single monomial in its place.
  [[nodiscard]] Expr substitute(Symbol symbol, const Expr& formula) const;

  [[nodiscard]] bool is_zero() const { return monomials_.empty(); }
  [[nodiscard]] bool uses(Symbol symbol) const;
  /// The monomials, highest power first; empty for zero.
  [[nodiscard]] const std::vector<Monomial>& monomials() const { return monomials_; }

  /// The exact value rounded up to an integer (a rank's share of a tensor is whole bytes; most
  /// formulas are whole anyway). Throws OverflowError beyond 128 bits; InternalError for an unset
  /// symbol.
  [[nodiscard]] Int128 evaluate(const Bindings& bindings) const;
  /// evaluate() as bytes; OverflowError beyond 64 bits.
  [[nodiscard]] Bytes bytes(const Bindings& bindings) const {
    return Bytes(narrow_to_int64(evaluate(bindings)));
  }
  [[nodiscard]] Flops flops(const Bindings& bindings) const { return Flops(evaluate(bindings)); }

  /// The formula as people write it, the common factor in front: "b·s·h·(34 + 5·s·a/h)", "2·Φ +
  /// 12·Φ/D".
  [[nodiscard]] std::string text() const;
  /// The text with values in place of the letters: "1·8192·4096·(34 + 5·8192·32/4096)".
  [[nodiscard]] std::string substituted(const Bindings& bindings) const;

 private:
  std::vector<Monomial> monomials_;  // sorted, no zero coefficient, no two with the same exponents
};

}  // namespace memest
