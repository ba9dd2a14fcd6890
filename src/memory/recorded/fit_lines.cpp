#include "memest/memory/recorded/fit_lines.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "memest/memory/recorded/fit_formula.hpp"

namespace memest {
namespace {

constexpr std::string_view kNoNumber = "-";
constexpr std::string_view kArguments = "w o ";

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

/// A character that makes the digits beside it a part of a name or of a fraction.
bool joins(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_' ||
         letter == '.' || letter == '-' || letter == '+';
}

/// A word as the whole numbers in it and what stands between them.
struct SplitWord {
  std::vector<std::string_view> texts;  // one more than numbers
  std::vector<std::int64_t> numbers;
};

SplitWord split_numbers(std::string_view word) {
  SplitWord split;
  std::size_t text = 0;
  std::size_t at = 0;
  while (at < word.size()) {
    if (!is_digit(word[at])) {
      ++at;
      continue;
    }
    const std::size_t begin = at;
    while (at < word.size() && is_digit(word[at])) ++at;
    const bool is_joined =
        (begin > 0 && joins(word[begin - 1])) || (at < word.size() && joins(word[at]));
    std::int64_t number = 0;
    const auto read = std::from_chars(word.data() + begin, word.data() + at, number);
    if (is_joined || read.ec != std::errc()) continue;
    split.texts.push_back(word.substr(text, begin - text));
    split.numbers.push_back(number);
    text = at;
  }
  split.texts.push_back(word.substr(text));
  return split;
}

std::vector<std::string_view> words_in(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t end = line.find(' ');
    words.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return words;
    line.remove_prefix(end + 1);
  }
}

bool is_plain_number(std::string_view word) {
  double number = 0;
  const auto [stopped, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return stopped == word.data() + word.size() && error != std::errc::invalid_argument;
}

class LineFitter {
 public:
  explicit LineFitter(const std::vector<SizePoint>& fitted) : fitter_(fitted) {}

  /// The line whose text at every fitted point is given; nothing where it has none.
  std::optional<VariedLine> fit(const std::vector<std::string_view>& lines) {
    std::vector<std::vector<std::string_view>> words;
    for (const std::string_view line : lines) words.push_back(words_in(line));
    const std::size_t count = words.front().size();
    if (std::ranges::any_of(words, [&](const auto& own) { return own.size() != count; })) return {};
    VariedLine line{{""}, {}};
    has_arguments_ = lines.front().starts_with(kArguments);
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) line.texts.back() += ' ';
      std::vector<std::string_view> word;
      for (const auto& own : words) word.push_back(own[i]);
      if (!add_word(word, line)) return {};
    }
    return line;
  }

  std::vector<SizeFormula> take_formulas() { return std::move(formulas_); }

 private:
  bool add_word(const std::vector<std::string_view>& word, VariedLine& line) {
    const auto is_first = [&](std::string_view other) { return other == word.front(); };
    if (std::ranges::all_of(word, is_first)) {
      line.texts.back() += word.front();
      return true;
    }
    VariedLine varied{{""}, {}};
    if (fit_word(word, varied)) {
      line.texts.back() += varied.texts.front();
      line.texts.insert(line.texts.end(), varied.texts.begin() + 1, varied.texts.end());
      line.formulas.insert(line.formulas.end(), varied.formulas.begin(), varied.formulas.end());
      return true;
    }
    if (!has_arguments_ || !std::ranges::all_of(word, is_plain_number)) return false;
    line.texts.back() += kNoNumber;
    return true;
  }

  bool fit_word(const std::vector<std::string_view>& word, VariedLine& line) {
    std::vector<SplitWord> splits;
    for (const std::string_view own : word) splits.push_back(split_numbers(own));
    const auto is_alike = [&](const SplitWord& other) { return other.texts == splits[0].texts; };
    if (!std::ranges::all_of(splits, is_alike)) return false;
    line.texts.back() = splits[0].texts[0];
    for (std::size_t i = 0; i < splits[0].numbers.size(); ++i) {
      std::vector<std::int64_t> numbers;
      for (const SplitWord& split : splits) numbers.push_back(split.numbers[i]);
      const auto is_equal = [&](std::int64_t other) { return other == numbers[0]; };
      if (std::ranges::all_of(numbers, is_equal)) {
        line.texts.back() += std::to_string(numbers[0]);
      } else if (const auto formula = formula_of(numbers)) {
        line.formulas.push_back(*formula);
        line.texts.emplace_back();
      } else {
        return false;
      }
      line.texts.back() += splits[0].texts[i + 1];
    }
    return true;
  }

  /// The index of the numbers' formula; nothing where they have none.
  std::optional<std::uint32_t> formula_of(const std::vector<std::int64_t>& numbers) {
    const auto [entry, is_new] = known_.try_emplace(numbers);
    if (is_new) {
      if (auto formula = fitter_.fit(numbers)) {
        entry->second = static_cast<std::uint32_t>(formulas_.size());
        formulas_.push_back(*std::move(formula));
      }
    }
    return entry->second;
  }

  FormulaFitter fitter_;
  bool has_arguments_ = false;  // the line is an operator's, whose numbers may decide nothing
  std::vector<SizeFormula> formulas_;
  std::map<std::vector<std::int64_t>, std::optional<std::uint32_t>> known_;
};

/// Whether the held-out line has the words that the formulas give, but for numbers without one.
bool is_given(std::string_view given, std::string_view held_out) {
  const std::vector<std::string_view> own = words_in(given);
  const std::vector<std::string_view> other = words_in(held_out);
  if (own.size() != other.size()) return false;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const bool is_open = own[i] == kNoNumber && is_plain_number(other[i]);
    if (own[i] != other[i] && !is_open) return false;
  }
  return true;
}

/// Where there are more lines at one point than at another.
std::optional<PartedLines> other_count(const std::vector<LinesAt>& recorded) {
  const std::vector<std::string>& first = recorded.front().lines;
  for (const LinesAt& other : recorded) {
    if (other.lines.size() == first.size()) continue;
    const auto [own, others] = std::ranges::mismatch(
        first, other.lines, {}, [](const std::string& line) { return line.substr(0, 3); },
        [](const std::string& line) { return line.substr(0, 3); });
    return PartedLines{own == first.end() ? "" : *own, other.point,
                       others == other.lines.end() ? "" : *others};
  }
  return std::nullopt;
}

}  // namespace

std::variant<VariedWork, PartedLines> fit_lines(const std::vector<LinesAt>& recorded) {
  if (auto parted = other_count(recorded)) return *std::move(parted);
  std::vector<SizePoint> fitted;
  for (std::size_t i = 0; i + 1 < recorded.size(); ++i) fitted.push_back(recorded[i].point);
  LineFitter fitter(fitted);
  VariedWork work;
  for (std::size_t i = 0; i < recorded.front().lines.size(); ++i) {
    std::vector<std::string_view> lines;
    for (std::size_t point = 0; point < fitted.size(); ++point) {
      lines.emplace_back(recorded[point].lines[i]);
    }
    auto line = fitter.fit(lines);
    if (!line) {
      const auto other = static_cast<std::size_t>(
          std::ranges::find_if(lines, [&](auto own) { return own != lines[0]; }) - lines.begin());
      return PartedLines{std::string(lines[0]), fitted[other], std::string(lines[other])};
    }
    work.lines.push_back(*std::move(line));
  }
  work.formulas = fitter.take_formulas();
  const LinesAt& held_out = recorded.back();
  for (std::size_t i = 0; i < work.lines.size(); ++i) {
    const auto given = line_at(work.lines[i], work, held_out.point);
    if (given && is_given(*given, held_out.lines[i])) continue;
    return PartedLines{given.value_or(""), held_out.point, held_out.lines[i]};
  }
  return work;
}

}  // namespace memest
