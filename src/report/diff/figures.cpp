#include "report/diff/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "memest/report/explain_report.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"

namespace memest {
namespace {

/// Groups whose numbers are parts of a sum, which takes nothing where there is no such part.
constexpr std::array<std::string_view, 7> kParts = {
    "weights", "gradients", "optimizer", "activations", "buffers", "overhead", "host memory"};

struct Number {
  std::string group;
  std::string name;
  std::string unit;
  FigureNumber value;
  int copy = 0;  ///< which of several of one name

  friend bool is_same(const Number& left, const Number& right) {
    return left.group == right.group && left.name == right.name && left.copy == right.copy;
  }
};

/// Numbers that an answer has beside those that have a formula to explain.
void add_plain_numbers(const ComparedSpec& spec, std::vector<Number>& out) {
  const JobEstimate& estimate = spec.estimate;
  const auto count = [&out](const char* name, std::int64_t value) {
    out.push_back({"parameters", name, "parameters", static_cast<double>(value)});
  };
  count("parameters", estimate.parameters.total);
  count("trained", estimate.parameters.trainable);
  count("active a token", estimate.parameters.active);
  if (const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory)) {
    out.push_back({"memory", "capacity", "B", memory->capacity.bytes});
  }
  if (const auto* time = std::get_if<TimeEstimate>(&estimate.time)) {
    out.push_back({"time", "tokens a second and GPU", "tokens/s", time->tokens_per_second_per_gpu});
  }
  if (const auto* cost = std::get_if<CostEstimate>(&estimate.cost)) {
    out.push_back({"money", "cost of an hour", "USD", cost->per_hour.value()});
  }
}

std::vector<Number> numbers_of(const ComparedSpec& spec) {
  std::vector<Number> numbers;
  for (Explanation& row : explain(spec.job, spec.estimate)) {
    // The number of an explained interval is its upper end.
    const bool interval =
        row.group == "memory" || row.group == "time" ? row.name.starts_with("interval") : false;
    numbers.push_back({std::move(row.group),
                       interval ? row.name + ", upper end" : std::move(row.name),
                       std::move(row.unit), row.number});
  }
  add_plain_numbers(spec, numbers);
  std::map<std::pair<std::string, std::string>, int> copies;
  for (Number& number : numbers) number.copy = copies[{number.group, number.name}]++;
  return numbers;
}

std::optional<FigureNumber> less(const FigureNumber& b, const FigureNumber& a) {
  if (b.index() != a.index()) return {};
  return std::visit(
      [&a](const auto& value) -> FigureNumber {
        return value - std::get<std::decay_t<decltype(value)>>(a);
      },
      b);
}

bool is_zero(const FigureNumber& number) {
  return std::visit([](const auto& value) { return value == std::decay_t<decltype(value)>{}; },
                    number);
}

FigureNumber negated(const FigureNumber& number) {
  return std::visit(
      [](const auto& value) -> FigureNumber { return std::decay_t<decltype(value)>{} - value; },
      number);
}

bool is_negative(const FigureNumber& number) {
  return std::visit([](const auto& value) { return value < std::decay_t<decltype(value)>{}; },
                    number);
}

FigureRow row_of(const Number& number) {
  return {number.group, number.name, number.unit, {}, {}, {}};
}

/// Whether a side's answer has no such part at all.
bool is_unknown(const SpecComparison& comparison, const FigureRow& row) {
  const std::string part = row.group == "flops" || row.group == "time" ? row.group
                           : row.group == "money"                      ? "cost"
                                                                       : "memory";
  return row.group != "parameters" &&
         std::ranges::any_of(unknown_parts(comparison),
                             [&part](const UnknownPart& unknown) { return unknown.part == part; });
}

void set_difference(const SpecComparison& comparison, FigureRow& row) {
  if (row.a && row.b) {
    row.difference = less(*row.b, *row.a);
    return;
  }
  const bool both_known = std::holds_alternative<MemoryAnswer>(comparison.a.estimate.memory) &&
                          std::holds_alternative<MemoryAnswer>(comparison.b.estimate.memory);
  row.one_sided = is_unknown(comparison, row);
  if (!both_known || std::ranges::find(kParts, row.group) == kParts.end()) return;
  row.difference = row.b ? *row.b : negated(*row.a);
}

/// The reason why a part is missing; empty where it is there.
template <class T>
std::string why_missing(const std::variant<T, Unavailable>& part) {
  const auto* missing = std::get_if<Unavailable>(&part);
  return missing == nullptr ? std::string() : missing->sentence;
}

}  // namespace

bool FigureRow::differs() const { return !difference || !is_zero(*difference); }

std::vector<FigureRow> figure_rows(const SpecComparison& comparison) {
  const std::vector<Number> of_a = numbers_of(comparison.a);
  const std::vector<Number> of_b = numbers_of(comparison.b);
  std::vector<FigureRow> rows;
  std::vector<const Number*> meanings;
  for (const Number& number : of_a) {
    rows.push_back(row_of(number));
    rows.back().a = number.value;
    meanings.push_back(&number);
  }
  std::size_t behind = 0;
  for (const Number& number : of_b) {
    const auto found = std::ranges::find_if(
        meanings, [&number](const Number* other) { return is_same(*other, number); });
    const auto at =
        found == meanings.end() ? behind : static_cast<std::size_t>(found - meanings.begin());
    if (found == meanings.end()) {
      rows.insert(rows.begin() + static_cast<std::ptrdiff_t>(at), row_of(number));
      meanings.insert(meanings.begin() + static_cast<std::ptrdiff_t>(at), &number);
    }
    rows[at].b = number.value;
    behind = at + 1;
  }
  for (FigureRow& row : rows) set_difference(comparison, row);
  // Numbers of one group stand together, in the order in which the groups first come.
  std::vector<std::string> groups;
  for (const FigureRow& row : rows) {
    if (std::ranges::find(groups, row.group) == groups.end()) groups.push_back(row.group);
  }
  const auto place = [&groups](const FigureRow& row) {
    return std::ranges::find(groups, row.group) - groups.begin();
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&place](const FigureRow& left, const FigureRow& right) {
                     return place(left) < place(right);
                   });
  return rows;
}

std::vector<UnknownPart> unknown_parts(const SpecComparison& comparison) {
  const JobEstimate& a = comparison.a.estimate;
  const JobEstimate& b = comparison.b.estimate;
  const auto time = [](const JobEstimate& estimate) {
    return estimate.inference_time ? std::string() : why_missing(estimate.time);
  };
  std::vector<UnknownPart> parts = {{"memory", why_missing(a.memory), why_missing(b.memory)},
                                    {"flops", why_missing(a.flops), why_missing(b.flops)},
                                    {"time", time(a), time(b)},
                                    {"cost", why_missing(a.cost), why_missing(b.cost)}};
  std::erase_if(parts, [](const UnknownPart& part) { return part.a.empty() && part.b.empty(); });
  return parts;
}

std::string figure_text(const FigureNumber& number, const std::string& unit) {
  if (const auto* bytes = std::get_if<Bytes>(&number)) return sized_text(*bytes);
  if (const auto* flops = std::get_if<Flops>(&number)) return flops_text(*flops);
  const double value = std::get<double>(number);
  if (unit == "s") return seconds_text(Seconds(value));
  if (unit == "USD") return dollars_text(Dollars(value));
  if (unit.empty()) return percent_text(value);
  if (unit == "parameters") return grouped(static_cast<Int128>(std::llround(value)));
  return significant_text(value) + " " + unit;
}

std::string signed_text(const FigureNumber& number, const std::string& unit) {
  if (is_zero(number)) return "0";
  const bool less_than_none = is_negative(number);
  // U+2212 is the minus of the other answers' text.
  const FigureNumber amount = less_than_none ? negated(number) : number;
  // Shares are in percent, and so is what they differ by: 29 % and 36 % by 7 points.
  const std::string text = unit.empty()
                               ? significant_text(100 * std::get<double>(amount)) + " points"
                               : figure_text(amount, unit);
  return (less_than_none ? "−" : "+") + text;
}

std::string digits_of(const FigureNumber& number) {
  if (const auto* bytes = std::get_if<Bytes>(&number)) return to_string(bytes->value());
  if (const auto* flops = std::get_if<Flops>(&number)) return to_string(flops->value());
  return exact_text(std::get<double>(number));
}

}  // namespace memest
