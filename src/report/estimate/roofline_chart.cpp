#include "report/estimate/roofline_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "memest/report/numbers.hpp"
#include "report/estimate/estimate_charts.hpp"

namespace memest {
namespace {

/// FLOPs a byte where operations without FLOPs stand: a power of ten below all others.
double column_without_flops(const std::vector<OpTime>& kernels, double ridge) {
  double least = ridge;
  for (const OpTime& op : kernels) {
    if (op.flops > 0) least = std::min(least, op.flops / op.bytes);
  }
  return std::pow(10, std::floor(std::log10(least)) - 1);
}

ChartMark mark_of(const OpTime& op, const TimeEstimate& time, const Roof& roof, double column) {
  const bool counts = op.flops > 0;
  const double share = share_of_roof(op, roof);
  return {.x = counts ? op.flops / op.bytes : column,
          .y = counts ? op.flops / op.seconds.value() : share * roof.at(column),
          .name = name_of(op),
          .detail = fmt::format("{}, reaches {}, {} of its roof; {}, {} of the step",
                                counts ? significant_text(op.flops / op.bytes) + " FLOP/B"
                                       : std::string("counts no FLOPs"),
                                reached_text(op), percent_text(share), seconds_text(op.seconds),
                                percent_text(op.seconds / time.step)),
          .share = op.seconds / time.step};
}

/// The classes that there are, in their order.
std::vector<ChartSeries> series_of(const TimeEstimate& time, const Roof& roof, double column) {
  std::map<OpClass, ChartSeries> classes;
  for (const OpTime& op : kernels_of(time)) {
    if (op.seconds <= Seconds()) continue;
    ChartSeries& series = classes[op.op_class];
    series.name = name_of(op.op_class);
    series.hue = hue_of(op.op_class);
    series.labelled = true;
    series.marks.push_back(mark_of(op, time, roof, column));
  }
  std::vector<ChartSeries> all;
  for (auto& [op_class, series] : classes) all.push_back(std::move(series));
  return all;
}

MarkChart drawing_of(const Job& job, const TimeEstimate& time) {
  const Roof roof = roof_of(job, time);
  const double ridge = roof.peak / roof.bandwidth;
  const double column = column_without_flops(kernels_of(time), ridge);
  MarkChart chart{.series = series_of(time, roof, column)};
  std::vector<double> intensities = {column, 4 * ridge};
  std::vector<double> rates = {roof.at(column), roof.peak};
  for (const ChartSeries& series : chart.series) {
    for (const ChartMark& mark : series.marks) {
      intensities.push_back(mark.x);
      rates.push_back(mark.y);
    }
  }
  const AxisRuler counts{.scale = AxisScale::logarithmic,
                         .write = [](double number) { return significant_text(number); }};
  const AxisRuler speeds{.scale = AxisScale::logarithmic,
                         .write = [](double rate) { return rate_text(FlopsPerSecond(rate)); }};
  chart.x = axis_over("FLOPs a byte", counts, intensities);
  chart.x.ticks.front().text = "no FLOPs";
  chart.y = axis_over("", speeds, rates);
  chart.lines.push_back({.name = fmt::format("roof: {}, {}", rate_text(FlopsPerSecond(roof.peak)),
                                             rate_text(BytesPerSecond(roof.bandwidth))),
                         .points = {{chart.x.low, roof.at(chart.x.low)},
                                    {ridge, roof.peak},
                                    {chart.x.high, roof.peak}},
                         .name_at = 1});
  return chart;
}

}  // namespace

double Roof::at(double intensity) const { return std::min(peak, intensity * bandwidth); }

Roof roof_of(const Job& job, const TimeEstimate& time) {
  const double bandwidth = job.hardware.gpu.memory_bandwidth->value.value();
  return {bandwidth, bandwidth * time.ridge_point};
}

double share_of_roof(const OpTime& op, const Roof& roof) {
  const double seconds = op.seconds.value();
  // Left of the ridge the roof is intensity times bandwidth, so the share is one of the bandwidth;
  // right of it one of the peak.
  if (op.flops > 0) return op.flops / seconds / roof.at(op.flops / op.bytes);
  return op.bytes / seconds / roof.bandwidth;
}

std::string reached_text(const OpTime& op) {
  const double seconds = op.seconds.value();
  return op.flops > 0 ? rate_text(FlopsPerSecond(op.flops / seconds))
                      : rate_text(BytesPerSecond(op.bytes / seconds));
}

std::string name_of(const OpTime& op) { return fmt::format("{} {}", op.block, op.op); }

std::vector<OpTime> kernels_of(const TimeEstimate& time) {
  std::vector<OpTime> kernels;
  for (const OpTime& op : time.ops) {
    if (op.bytes <= 0) continue;
    const auto same = std::find_if(kernels.begin(), kernels.end(), [&op](const OpTime& other) {
      return other.block == op.block && other.op == op.op && (other.flops > 0) == (op.flops > 0);
    });
    if (same == kernels.end()) {
      kernels.push_back(op);
      continue;
    }
    same->seconds += op.seconds;
    same->flops += op.flops;
    same->bytes += op.bytes;
  }
  std::stable_sort(kernels.begin(), kernels.end(), [](const OpTime& left, const OpTime& right) {
    return left.seconds > right.seconds;
  });
  return kernels;
}

Chart roofline_chart(const Job& job, const TimeEstimate& time) {
  return {"Operations below the roof.",
          "An area is a share of the step's time. Operations that count no FLOPs stand in the left "
          "column, as far below the roof as they are below the bandwidth.",
          [&job, &time] { return drawing_of(job, time); }};
}

}  // namespace memest
