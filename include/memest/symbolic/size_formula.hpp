// A size in bytes as a polynomial in a few whole numbers that somebody varied: the batch, the
// sequence's length. Its coefficients are whole numbers over one denominator. Beside it stand sizes
// that grow in steps, as the workspace of a kernel with so much for each of its blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace memest {

/// A value of each varied number, in their order.
using SizePoint = std::vector<std::int64_t>;

/// The exponent of each varied number.
using SizeExponents = std::vector<std::uint8_t>;

class SizeFormula {
 public:
  struct Term {
    std::int64_t coefficient = 0;
    SizeExponents exponents;

    friend bool operator==(const Term&, const Term&) = default;
  };

  /// So much for each tile that is begun: coefficient * ceil(product / tile). A few points tell a
  /// tile's length only to lie within two, both positive.
  struct Step {
    std::int64_t coefficient = 0;  ///< positive
    SizeExponents exponents;
    std::int64_t least_tile = 1;
    std::int64_t most_tile = 1;

    friend bool operator==(const Step&, const Step&) = default;
  };

  /// Zero.
  SizeFormula() = default;
  /// The terms' sum over the denominator, which is positive, and the steps. Terms of the same
  /// exponents become one. Throws OverflowError.
  explicit SizeFormula(std::vector<Term> terms, std::int64_t denominator = 1,
                       std::vector<Step> steps = {});

  /// The highest degree first, no two of the same exponents, none of coefficient 0.
  [[nodiscard]] const std::vector<Term>& terms() const { return terms_; }
  [[nodiscard]] std::int64_t denominator() const { return denominator_; }

  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }

  /// With the least tiles, which make most steps. Nothing where it is no whole number, or leaves 64
  /// bits.
  [[nodiscard]] std::optional<std::int64_t> evaluate(const SizePoint& point) const;
  /// The whole number at or above it; nothing where that leaves 64 bits.
  [[nodiscard]] std::optional<std::int64_t> evaluate_up(const SizePoint& point) const;
  /// How much less it is with the most tiles, at a point where it has a value.
  [[nodiscard]] std::int64_t slack(const SizePoint& point) const;

  /// "3072*batch*seq+512", "(3*batch*seq^2+6)/4", "16*seq+1024*ceil(batch*seq/4608..5119)".
  [[nodiscard]] std::string text(const std::vector<std::string>& names) const;

  friend SizeFormula operator+(const SizeFormula& left, const SizeFormula& right);
  friend bool operator==(const SizeFormula&, const SizeFormula&) = default;

 private:
  std::vector<Term> terms_;
  std::int64_t denominator_ = 1;
  std::vector<Step> steps_;
};

/// Sum of a term's exponents.
std::int64_t degree_of(const SizeExponents& exponents);

}  // namespace memest
