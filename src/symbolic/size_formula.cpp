#include "memest/symbolic/size_formula.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// The highest degree first; of equals the one with more of the first number.
bool stands_before(const SizeFormula::Term& left, const SizeFormula::Term& right) {
  const std::int64_t left_degree = degree_of(left.exponents);
  const std::int64_t right_degree = degree_of(right.exponents);
  if (left_degree != right_degree) return left_degree > right_degree;
  return left.exponents > right.exponents;
}

/// "batch*seq^2"; empty of a constant.
std::string product_text(const SizeExponents& exponents, const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < exponents.size(); ++i) {
    if (exponents[i] == 0) continue;
    text += (text.empty() ? "" : "*") + names[i];
    if (exponents[i] > 1) text += "^" + std::to_string(exponents[i]);
  }
  return text;
}

std::string term_text(const SizeFormula::Term& term, const std::vector<std::string>& names) {
  const std::string product = product_text(term.exponents, names);
  if (product.empty()) return std::to_string(term.coefficient);
  if (term.coefficient == 1) return product;
  if (term.coefficient == -1) return "-" + product;
  return std::to_string(term.coefficient) + "*" + product;
}

/// Nothing where it leaves 128 bits.
std::optional<Int128> product_at(const SizeExponents& exponents, const SizePoint& point,
                                 Int128 product) {
  for (std::size_t i = 0; i < exponents.size(); ++i) {
    for (std::uint8_t k = 0; k < exponents[i]; ++k) {
      if (__builtin_mul_overflow(product, Int128{point[i]}, &product)) return std::nullopt;
    }
  }
  return product;
}

/// Adds to a sum; false where a part is none, or the sum leaves 128 bits.
bool add_part(std::optional<Int128> part, Int128& sum) {
  return part && !__builtin_add_overflow(sum, *part, &sum);
}

Int128 rounded_up(Int128 whole, std::int64_t part) { return (whole + part - 1) / part; }

std::string step_text(const SizeFormula::Step& step, const std::vector<std::string>& names) {
  return std::to_string(step.coefficient) + "*ceil(" + product_text(step.exponents, names) + "/" +
         std::to_string(step.least_tile) + ".." + std::to_string(step.most_tile) + ")";
}

}  // namespace

std::int64_t degree_of(const SizeExponents& exponents) {
  return std::accumulate(exponents.begin(), exponents.end(), std::int64_t{0});
}

SizeFormula::SizeFormula(std::vector<Term> terms, std::int64_t denominator, std::vector<Step> steps)
    : denominator_(denominator), steps_(std::move(steps)) {
  expect(denominator > 0, "a formula's denominator is positive");
  std::ranges::sort(terms, stands_before);
  for (Term& term : terms) {
    if (!terms_.empty() && terms_.back().exponents == term.exponents) {
      terms_.back().coefficient = checked_add(terms_.back().coefficient, term.coefficient);
    } else {
      terms_.push_back(std::move(term));
    }
  }
  std::erase_if(terms_, [](const Term& term) { return term.coefficient == 0; });
  std::int64_t divisor = denominator_;
  for (const Term& term : terms_) divisor = std::gcd(divisor, term.coefficient);
  for (Term& term : terms_) term.coefficient /= divisor;
  denominator_ /= divisor;
}

std::optional<std::int64_t> SizeFormula::evaluate(const SizePoint& point) const {
  Int128 sum = 0;
  for (const Term& term : terms_) {
    if (!add_part(product_at(term.exponents, point, term.coefficient), sum)) return std::nullopt;
  }
  return sum % denominator_ == 0 ? evaluate_up(point) : std::nullopt;
}

std::optional<std::int64_t> SizeFormula::evaluate_up(const SizePoint& point) const {
  Int128 sum = 0;
  for (const Term& term : terms_) {
    if (!add_part(product_at(term.exponents, point, term.coefficient), sum)) return std::nullopt;
  }
  const bool is_above = sum % denominator_ > 0;  // a quotient is cut towards 0
  sum = sum / denominator_ + (is_above ? 1 : 0);
  for (const Step& step : steps_) {
    const auto product = product_at(step.exponents, point, 1);
    if (!product) return std::nullopt;
    Int128 bytes = rounded_up(*product, step.least_tile);
    if (__builtin_mul_overflow(bytes, Int128{step.coefficient}, &bytes) || !add_part(bytes, sum)) {
      return std::nullopt;
    }
  }
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  if (sum > kMost || sum < -kMost) return std::nullopt;
  return static_cast<std::int64_t>(sum);
}

std::int64_t SizeFormula::slack(const SizePoint& point) const {
  Int128 sum = 0;
  for (const Step& step : steps_) {
    const Int128 product = product_at(step.exponents, point, 1).value();
    const Int128 tiles = rounded_up(product, step.least_tile) - rounded_up(product, step.most_tile);
    sum = checked_add(sum, checked_multiply(tiles, Int128{step.coefficient}));
  }
  return narrow_to_int64(sum);
}

std::string SizeFormula::text(const std::vector<std::string>& names) const {
  if (terms_.empty() && steps_.empty()) return "0";
  std::string sum;
  for (const Term& term : terms_) {
    if (!sum.empty() && term.coefficient > 0) sum += "+";
    sum += term_text(term, names);
  }
  if (denominator_ != 1) sum = "(" + sum + ")/" + std::to_string(denominator_);
  for (const Step& step : steps_) sum += (sum.empty() ? "" : "+") + step_text(step, names);
  return sum;
}

SizeFormula operator+(const SizeFormula& left, const SizeFormula& right) {
  const std::int64_t divisor = std::gcd(left.denominator_, right.denominator_);
  const std::int64_t left_factor = right.denominator_ / divisor;
  const std::int64_t right_factor = left.denominator_ / divisor;
  std::vector<SizeFormula::Term> terms;
  for (const SizeFormula::Term& term : left.terms_) {
    terms.push_back({checked_multiply(term.coefficient, left_factor), term.exponents});
  }
  for (const SizeFormula::Term& term : right.terms_) {
    terms.push_back({checked_multiply(term.coefficient, right_factor), term.exponents});
  }
  std::vector<SizeFormula::Step> steps = left.steps_;
  for (const SizeFormula::Step& step : right.steps_) {
    const auto same = std::ranges::find_if(steps, [&](const SizeFormula::Step& one) {
      return one.exponents == step.exponents && one.least_tile == step.least_tile &&
             one.most_tile == step.most_tile;
    });
    if (same == steps.end()) {
      steps.push_back(step);
    } else {
      same->coefficient = checked_add(same->coefficient, step.coefficient);
    }
  }
  return SizeFormula(std::move(terms), checked_multiply(left.denominator_, left_factor),
                     std::move(steps));
}

}  // namespace memest
