#include "report/check/check_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "memest/report/numbers.hpp"
#include "report/check/check_text.hpp"

namespace memest {
namespace {

/// Lanes that are drawn; the rest has more room in its budget.
constexpr std::size_t kMostLanes = 40;

struct Filled {
  std::string file;
  const BudgetLine* line;
  double share;  ///< of the limit
};

std::vector<Filled> fullest_of(const std::vector<CheckedFile>& files) {
  std::vector<Filled> all;
  for (const CheckedFile& file : files) {
    for (const CheckedLine& checked : file.lines) {
      const BudgetLine& line = checked.line;
      if (line.status == BudgetStatus::unavailable || line.limit <= 0) continue;
      all.push_back({file.file, &line, line.value / line.limit});
    }
  }
  std::ranges::stable_sort(all, std::greater<>(), &Filled::share);
  if (all.size() > kMostLanes) all.resize(kMostLanes);
  return all;
}

struct StatusRow {
  BudgetStatus status;
  const char* name;
  Hue hue;
  bool hollow;
};
constexpr std::array kStatuses = {
    StatusRow{BudgetStatus::within, "within", Hue::teal, false},
    StatusRow{BudgetStatus::too_close, "too close to call", Hue::sand, false},
    StatusRow{BudgetStatus::over, "over", Hue::rose, false}};

MarkChart drawing_of(const std::vector<CheckedFile>& files) {
  const std::vector<Filled> rows = fullest_of(files);
  MarkChart chart;
  for (const StatusRow& status : kStatuses) {
    chart.series.push_back({.name = status.name, .hue = status.hue, .hollow = status.hollow});
  }
  std::vector<double> shares = {0, 1};
  std::vector<std::string> names;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [file, line, share] = rows[i];
    const auto lane = static_cast<double>(i);
    const auto series = std::ranges::find(kStatuses, line->status, &StatusRow::status);
    chart.series[static_cast<std::size_t>(series - kStatuses.begin())].marks.push_back(
        {.x = share,
         .y = lane,
         .name = fmt::format("{}: {}", file, name_of(line->item)),
         .detail =
             fmt::format("{} of {}, {} to {}", amount_text(line->item, line->value),
                         amount_text(line->item, line->limit), amount_text(line->item, line->low),
                         amount_text(line->item, line->high))});
    chart.lines.push_back(
        {.points = {{line->low / line->limit, lane}, {line->high / line->limit, lane}}});
    shares.insert(shares.end(), {share, line->high / line->limit});
    names.push_back(fmt::format("{}: {}", file, name_of(line->item)));
  }
  std::erase_if(chart.series, [](const ChartSeries& series) { return series.marks.empty(); });
  chart.x = axis_over("share of the budget, with its interval", {.write = percent_text}, shares);
  chart.y = lanes_of(std::move(names));
  chart.lines.push_back({.name = "the budget", .points = {{1, chart.y.low}, {1, chart.y.high}}});
  return chart;
}

}  // namespace

Chart budgets_chart(const std::vector<CheckedFile>& files) {
  return {"Budgets.",
          fmt::format("The {} that are fullest at most; beyond 100 % is over.", kMostLanes),
          [&files] { return drawing_of(files); }};
}

}  // namespace memest
