#include "report/diff/diff_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <variant>

namespace memest {
namespace {

/// Terms that are drawn, those that differ most; the table has all.
constexpr std::size_t kMostDrawn = 20;

struct TermDifference {
  std::string name;
  double bytes = 0;  ///< B less A
  std::string text;  ///< for people
};

/// Terms are what adds up to the peaks, which are a group of their own.
std::vector<TermDifference> differing_terms(const std::vector<FigureRow>& figures) {
  std::vector<TermDifference> terms;
  for (const FigureRow& row : figures) {
    const auto* bytes = row.difference ? std::get_if<Bytes>(&*row.difference) : nullptr;
    if (bytes == nullptr || row.group == "memory" || *bytes == Bytes()) continue;
    terms.push_back(
        {row.name, static_cast<double>(bytes->value()), signed_text(*row.difference, row.unit)});
  }
  std::ranges::stable_sort(terms, std::greater<>(),
                           [](const TermDifference& term) { return std::abs(term.bytes); });
  if (terms.size() > kMostDrawn) terms.resize(kMostDrawn);
  return terms;
}

MarkChart drawing_of(const std::vector<TermDifference>& terms) {
  MarkChart chart;
  chart.series = {{.name = "B takes more", .hue = Hue::rose},
                  {.name = "B takes less", .hue = Hue::teal}};
  std::vector<double> numbers = {0};
  std::vector<std::string> names;
  for (const TermDifference& term : terms) {
    const auto lane = static_cast<double>(names.size());
    chart.series[term.bytes > 0 ? 0 : 1].marks.push_back(
        {.x = term.bytes, .y = lane, .name = term.name, .detail = term.text});
    chart.lines.push_back({.points = {{0, lane}, {term.bytes, lane}}});
    numbers.push_back(term.bytes);
    names.push_back(term.name);
  }
  std::erase_if(chart.series, [](const ChartSeries& series) { return series.marks.empty(); });
  chart.x = axis_over("what B takes beyond A", ruler_of_bytes(AxisScale::linear), numbers);
  chart.y = lanes_of(std::move(names));
  return chart;
}

}  // namespace

std::optional<Chart> terms_chart(const std::vector<FigureRow>& figures) {
  std::vector<TermDifference> terms = differing_terms(figures);
  if (terms.empty()) return std::nullopt;
  return Chart{"Terms that differ.",
               fmt::format("The {} at the peak that differ most, at most.", kMostDrawn),
               [terms = std::move(terms)] { return Drawing(drawing_of(terms)); }};
}

}  // namespace memest
