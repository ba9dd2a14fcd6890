#include <algorithm>
#include <charconv>

#include "memest/reader/family_text.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

constexpr std::int64_t kLargestValue = std::int64_t{1} << 40U;

bool begins_name(char sign) {
  return (sign >= 'a' && sign <= 'z') || (sign >= 'A' && sign <= 'Z') || sign == '_';
}
bool is_formula_digit(char sign) { return sign >= '0' && sign <= '9'; }

/// Takes signs from the front of a formula.
class FormulaReader {
 public:
  FormulaReader(std::string_view text, const std::vector<std::string>& names)
      : rest_(text), names_(names) {}

  std::optional<SizeFormula> read() {
    const bool divided = take('(');
    std::vector<SizeFormula::Term> terms;
    std::vector<SizeFormula::Step> steps;
    while (!stands_step()) {
      if (!read_term(terms)) return std::nullopt;
      if (rest_.empty() || (rest_.front() != '+' && rest_.front() != '-')) break;
    }
    std::int64_t denominator = 1;
    if (divided) {
      if (!take(')') || !take('/')) return std::nullopt;
      const auto number = take_number();
      if (!number || *number == 0) return std::nullopt;
      denominator = *number;
    }
    while (!rest_.empty()) {
      const bool first = terms.empty() && steps.empty();
      if (take('+') == first || !read_step(steps)) return std::nullopt;
    }
    return SizeFormula(std::move(terms), denominator, std::move(steps));
  }

 private:
  static constexpr std::string_view kCeil = "*ceil(";

  /// Whether "N*ceil(" comes, with a sign before it or without.
  [[nodiscard]] bool stands_step() const {
    std::size_t at = rest_.starts_with('+') ? 1 : 0;
    while (at < rest_.size() && is_formula_digit(rest_[at])) ++at;
    return rest_.substr(at).starts_with(kCeil);
  }

  /// "1024*ceil(batch*seq/4608..5119)".
  bool read_step(std::vector<SizeFormula::Step>& steps) {
    SizeFormula::Step step{0, SizeExponents(names_.size(), 0), 1, 1};
    const auto coefficient = take_number();
    if (!coefficient || *coefficient == 0 || !rest_.starts_with(kCeil)) return false;
    step.coefficient = *coefficient;
    rest_.remove_prefix(kCeil.size());
    do {
      if (!read_factor(step.exponents)) return false;
    } while (take('*'));
    if (!take('/')) return false;
    const auto least = take_number();
    if (!least || *least == 0 || !take('.') || !take('.')) return false;
    const auto most = take_number();
    if (!most || *most < *least || !take(')')) return false;
    step.least_tile = *least;
    step.most_tile = *most;
    steps.push_back(std::move(step));
    return true;
  }

  bool take(char sign) {
    if (rest_.empty() || rest_.front() != sign) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::optional<std::int64_t> take_number() {
    std::int64_t number = 0;
    if (rest_.empty() || !is_formula_digit(rest_.front())) return std::nullopt;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return number;
  }

  bool read_term(std::vector<SizeFormula::Term>& terms) {
    const bool negative = take('-');
    if (!negative && take('+') && terms.empty()) return false;
    SizeFormula::Term term{negative ? -1 : 1, SizeExponents(names_.size(), 0)};
    if (!rest_.empty() && is_formula_digit(rest_.front())) {
      const auto number = take_number();
      if (!number) return false;
      term.coefficient *= *number;
      if (!take('*')) {
        terms.push_back(std::move(term));
        return true;
      }
    }
    do {
      if (!read_factor(term.exponents)) return false;
    } while (take('*'));
    terms.push_back(std::move(term));
    return true;
  }

  bool read_factor(SizeExponents& exponents) {
    const auto* const end = std::ranges::find_if_not(
        rest_, [](char sign) { return begins_name(sign) || is_formula_digit(sign); });
    const std::string_view name = rest_.substr(0, static_cast<std::size_t>(end - rest_.begin()));
    const auto known = std::ranges::find(names_, name);
    if (known == names_.end()) return false;
    rest_.remove_prefix(name.size());
    constexpr std::int64_t kMost = 9;
    std::int64_t exponent = 1;
    if (take('^')) {
      const auto number = take_number();
      if (!number || *number < 1 || *number > kMost) return false;
      exponent = *number;
    }
    std::uint8_t& sum = exponents[static_cast<std::size_t>(known - names_.begin())];
    if (sum + exponent > kMost) return false;
    sum += static_cast<std::uint8_t>(exponent);
    return true;
  }

  std::string_view rest_;
  const std::vector<std::string>& names_;
};

std::optional<std::int64_t> varied_value(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || value < 1 || value > kLargestValue) return std::nullopt;
  return value;
}

bool is_size_name(std::string_view text) {
  return !text.empty() && begins_name(text.front()) && std::ranges::all_of(text, [](char sign) {
    return begins_name(sign) || is_formula_digit(sign);
  });
}

}  // namespace

std::optional<SizeFormula> parse_formula(std::string_view text,
                                         const std::vector<std::string>& names) {
  try {
    return FormulaReader(text, names).read();
  } catch (const OverflowError&) {
    return std::nullopt;
  }
}

std::optional<VariedSize> parse_varied(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || !is_size_name(text.substr(0, equals)))
    return std::nullopt;
  VariedSize varied{std::string(text.substr(0, equals)), {}};
  text.remove_prefix(equals + 1);
  while (true) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const auto value = varied_value(text.substr(0, comma));
    if (!value) return std::nullopt;
    varied.values.push_back(*value);
    if (comma == text.size()) return varied;
    text.remove_prefix(comma + 1);
  }
}

std::optional<std::pair<std::string, std::int64_t>> parse_size_value(std::string_view text) {
  const std::optional<VariedSize> varied = parse_varied(text);
  if (!varied || varied->values.size() != 1) return std::nullopt;
  return std::pair(varied->name, varied->values.front());
}

}  // namespace memest
