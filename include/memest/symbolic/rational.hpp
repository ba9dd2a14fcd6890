// An exact fraction of 64-bit integers, always reduced, denominator positive. Overflow throws
// OverflowError.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace memest {

class Rational {
 public:
  constexpr Rational() = default;
  // Implicit: integers are rationals.
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Rational(std::int64_t whole) : numerator_(whole) {}
  /// `denominator` is not zero.
  Rational(std::int64_t numerator, std::int64_t denominator);

  [[nodiscard]] constexpr std::int64_t numerator() const { return numerator_; }
  [[nodiscard]] constexpr std::int64_t denominator() const { return denominator_; }

  friend Rational operator+(Rational left, Rational right);
  friend Rational operator-(Rational left, Rational right);
  friend Rational operator*(Rational left, Rational right);
  friend Rational operator/(Rational left, Rational right);  ///< `right` is not zero
  friend constexpr bool operator==(Rational left, Rational right) = default;

  /// "3", "5/2".
  [[nodiscard]] std::string text() const;

 private:
  std::int64_t numerator_ = 0;
  std::int64_t denominator_ = 1;
};

}  // namespace memest
