#include "report/fit/fit_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <variant>

#include "memest/report/fit_report.hpp"
#include "memest/report/numbers.hpp"
#include "report/fit/rung_text.hpp"

namespace memest {
namespace {

void add_mark(const Rung& rung, const FitLadder& ladder, ChartSeries& series) {
  if (!rung.step || *rung.step <= Seconds()) return;
  series.marks.push_back({.x = rung.taken.as_double(),
                          .y = rung.step->value(),
                          .name = name_of(rung, ladder),
                          .detail = fmt::format("{}, a step of {}", sized_text(rung.taken),
                                                seconds_text(*rung.step))});
}

std::vector<ChartSeries> series_of(const FitLadder& ladder) {
  ChartSeries own{.name = "as written", .hue = Hue::rose, .labelled = true};
  ChartSeries front{.name = "fits, and none is better in both",
                    .hue = Hue::indigo,
                    .joined = true,
                    .labelled = true};
  ChartSeries fits{.name = "fits", .hue = Hue::teal};
  ChartSeries misses{
      .name = "does not fit, or is too close to call", .hue = Hue::grey, .hollow = true};
  add_mark(ladder.own, ladder, own);
  for (const std::size_t i : ladder.front) {
    if (i < ladder.fitting()) add_mark(ladder.rungs[i], ladder, front);
  }
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) {
    if (i >= ladder.fitting()) {
      add_mark(ladder.rungs[i], ladder, misses);
    } else if (std::ranges::find(ladder.front, i) == ladder.front.end()) {
      add_mark(ladder.rungs[i], ladder, fits);
    }
  }
  return {std::move(own), std::move(front), std::move(fits), std::move(misses)};
}

MarkChart drawing_of(const FitLadder& ladder) {
  MarkChart chart{.series = series_of(ladder)};
  std::erase_if(chart.series, [](const ChartSeries& series) { return series.marks.empty(); });
  std::vector<double> memory = {0, ladder.capacity.as_double()};
  std::vector<double> seconds;
  for (const ChartSeries& series : chart.series) {
    for (const ChartMark& mark : series.marks) {
      memory.push_back(mark.x);
      seconds.push_back(mark.y);
    }
  }
  const AxisRuler times{.scale = AxisScale::logarithmic,
                        .write = [](double step) { return seconds_text(Seconds(step)); }};
  chart.x =
      axis_over("memory of the GPU that takes most", ruler_of_bytes(AxisScale::linear), memory);
  chart.y = axis_over("a step of the same global batch", times, seconds);
  const double capacity = ladder.capacity.as_double();
  chart.lines.push_back({.name = "capacity",
                         .points = {{capacity, chart.y.low}, {capacity, chart.y.high}},
                         .name_at = 1});
  return chart;
}

}  // namespace

Chart ladder_chart(const FitLadder& ladder) {
  return {"Memory against time.",
          "A mark is the job with some techniques; nearer the corner is better.",
          [&ladder] { return drawing_of(ladder); }};
}

std::string ladder_svg(const FitLadder& ladder) { return svg_of(drawing_of(ladder)); }

}  // namespace memest
