#include "memest/symbolic/rational.hpp"

#include <numeric>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

Rational reduced(Int128 numerator, Int128 denominator) {
  Int128 left = numerator < 0 ? -numerator : numerator;
  Int128 right = denominator < 0 ? -denominator : denominator;
  while (right != 0) {
    const Int128 rest = left % right;
    left = right;
    right = rest;
  }
  const Int128 divisor = denominator < 0 ? -left : left;
  return {narrow_to_int64(numerator / divisor), narrow_to_int64(denominator / divisor)};
}

/// Most coefficients are whole numbers, and those need no reduction.
bool whole(Rational left, Rational right) {
  return left.denominator() == 1 && right.denominator() == 1;
}

}  // namespace

Rational::Rational(std::int64_t numerator, std::int64_t denominator) {
  const std::int64_t divisor = std::gcd(numerator, denominator);
  const std::int64_t sign = denominator < 0 ? -1 : 1;
  numerator_ = sign * (numerator / divisor);
  denominator_ = sign * (denominator / divisor);
}

// Products of two 64-bit numbers fit in 127 bits, and the sum of two such products in 128:
// reduced() narrows after.
Rational operator+(Rational left, Rational right) {
  if (whole(left, right)) return checked_add(left.numerator_, right.numerator_);
  return reduced(
      Int128{left.numerator_} * right.denominator_ + Int128{right.numerator_} * left.denominator_,
      Int128{left.denominator_} * right.denominator_);
}

Rational operator-(Rational left, Rational right) {
  if (whole(left, right)) return checked_subtract(left.numerator_, right.numerator_);
  return reduced(
      Int128{left.numerator_} * right.denominator_ - Int128{right.numerator_} * left.denominator_,
      Int128{left.denominator_} * right.denominator_);
}

Rational operator*(Rational left, Rational right) {
  if (whole(left, right)) return checked_multiply(left.numerator_, right.numerator_);
  return reduced(Int128{left.numerator_} * right.numerator_,
                 Int128{left.denominator_} * right.denominator_);
}

Rational operator/(Rational left, Rational right) {
  return reduced(Int128{left.numerator_} * right.denominator_,
                 Int128{left.denominator_} * right.numerator_);
}

std::string Rational::text() const {
  std::string result = std::to_string(numerator_);
  if (denominator_ != 1) result += "/" + std::to_string(denominator_);
  return result;
}

}  // namespace memest
