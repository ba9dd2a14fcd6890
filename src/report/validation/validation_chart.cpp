#include "report/validation/validation_chart.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "memest/report/numbers.hpp"
#include "memest/report/validation_report.hpp"
#include "memest/units/text.hpp"

namespace memest {
namespace {

/// An error below it is drawn as none but for its side.
constexpr double kLeastError = 1e-4;

/// A figure that is drawn, and where in a group's lane, from -0.5 to 0.5.
struct LaneRow {
  Metric metric;
  const char* name;
  Hue hue;
  bool hollow;
  double place;
};
constexpr std::array kFigures = {
    LaneRow{Metric::allocated_peak_bytes, "allocated peak", Hue::indigo, false, -0.27},
    LaneRow{Metric::reserved_peak_bytes, "reserved peak", Hue::rose, true, -0.09},
    LaneRow{Metric::device_bytes, "device bytes", Hue::teal, false, 0.09},
    LaneRow{Metric::step_seconds, "step time", Hue::sand, false, 0.27}};

/// From -0.5 to 0.5, spread evenly whatever the count: marks of one error stand beside each other.
double spread(std::size_t i) {
  constexpr double kGolden = 0.618033988749895;
  const double turns = static_cast<double>(i) * kGolden;
  return turns - std::floor(turns) - 0.5;
}

std::string mark_text(Metric metric, const std::variant<Int128, double>& figure) {
  if (const auto* bytes = std::get_if<Int128>(&figure)) {
    return sized_text(Bytes(static_cast<std::int64_t>(*bytes)));
  }
  const double number = std::get<double>(figure);
  return metric == Metric::step_seconds ? seconds_text(Seconds(number)) : significant_text(number);
}

std::string detail_of(const LaneRow& row, const Comparison& comparison) {
  const double error = comparison.error();
  const std::string said = error == 0
                               ? std::string("exactly")
                               : fmt::format("{} % {}", significant_text(100 * std::abs(error)),
                                             error < 0 ? "lower" : "higher");
  return fmt::format("{} {}, predicted {}", row.name, mark_text(row.metric, comparison.measured),
                     said);
}

std::map<std::string, std::size_t> lanes_in(const std::vector<ValidatedRun>& runs) {
  std::map<std::string, std::size_t> lanes;
  for (const ValidatedRun& run : runs) {
    for (const LaneRow& row : kFigures) {
      if (run.worst(row.metric) != nullptr) lanes.emplace(run.group, 0);
    }
  }
  std::size_t next = 0;
  for (auto& [group, lane] : lanes) lane = next++;
  return lanes;
}

ChartSeries series_of(const std::vector<ValidatedRun>& runs, const LaneRow& row,
                      const std::map<std::string, std::size_t>& lanes) {
  constexpr double kWidth = 0.14;
  ChartSeries series{.name = row.name, .hue = row.hue, .hollow = row.hollow};
  for (const ValidatedRun& run : runs) {
    const Comparison* worst = run.worst(row.metric);
    if (worst == nullptr || !std::isfinite(worst->error())) continue;
    const double lane = static_cast<double>(lanes.at(run.group));
    series.marks.push_back({.x = worst->error(),
                            .y = lane + row.place + kWidth * spread(series.marks.size()),
                            .name = run.id,
                            .detail = detail_of(row, *worst)});
  }
  return series;
}

MarkChart drawing_of(const std::vector<ValidatedRun>& runs) {
  const auto lanes = lanes_in(runs);
  MarkChart chart;
  std::vector<double> errors = {-kLeastError, kLeastError};
  for (const LaneRow& row : kFigures) {
    ChartSeries series = series_of(runs, row, lanes);
    for (const ChartMark& mark : series.marks) errors.push_back(mark.x);
    if (!series.marks.empty()) chart.series.push_back(std::move(series));
  }
  const AxisRuler shares{.scale = AxisScale::symmetric,
                         .write =
                             [](double share) {
                               return share == 0 ? std::string("0")
                                                 : fmt::format("{:+g} %", 100 * share);
                             },
                         .least = kLeastError};
  chart.x = axis_over("predicted over measured, less one", shares, errors);
  std::vector<std::string> names;
  for (const auto& [group, lane] : lanes) names.push_back(group);
  chart.y = lanes_of(std::move(names));
  chart.lines.push_back({.points = {{0, chart.y.low}, {0, chart.y.high}}});
  return chart;
}

}  // namespace

Chart errors_chart(const std::vector<ValidatedRun>& runs) {
  return {"Errors.",
          "A mark is a run, of several ranks the worst; left of 0 the prediction is too low.",
          [&runs] { return drawing_of(runs); }};
}

std::string scatter_of(const std::vector<ValidatedRun>& runs) { return svg_of(drawing_of(runs)); }

}  // namespace memest
