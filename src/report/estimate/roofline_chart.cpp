#include "report/estimate/roofline_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/report/numbers.hpp"
#include "report/estimate/estimate_charts.hpp"

namespace memest {
namespace {

/// FLOPs a byte where work without FLOPs stands: a power of ten below all other.
double column_without_flops(const Roofline& roofline) {
  double least = roofline.roof.ridge();
  for (const RoofedWork& work : roofline.work) {
    if (work.flops > 0) least = std::min(least, work.flops / work.bytes);
  }
  return std::pow(10, std::floor(std::log10(least)) - 1);
}

ChartMark mark_of(const RoofedWork& work, const Roofline& roofline, double column) {
  const bool counts = work.flops > 0;
  const double share = share_of_roof(work, roofline.roof);
  const double of_step = work.seconds / roofline.step;
  return {.x = counts ? work.flops / work.bytes : column,
          .y = counts ? work.flops / work.seconds.value() : share * roofline.roof.at(column),
          .name = work.name,
          .detail = fmt::format("{}, reaches {}, {} of its roof; {}, {} of the step",
                                counts ? significant_text(work.flops / work.bytes) + " FLOP/B"
                                       : std::string("counts no FLOPs"),
                                reached_text(work), percent_text(share), seconds_text(work.seconds),
                                percent_text(of_step)),
          .share = of_step};
}

/// The kinds that there are, in their order.
std::vector<ChartSeries> series_of(const Roofline& roofline, double column) {
  std::map<std::size_t, ChartSeries> kinds;
  for (const RoofedWork& work : roofline.work) {
    if (work.seconds <= Seconds()) continue;
    ChartSeries& series = kinds[work.series];
    series.name = work.kind;
    series.hue = work.hue;
    series.labelled = true;
    series.marks.push_back(mark_of(work, roofline, column));
  }
  std::vector<ChartSeries> all;
  for (auto& [kind, series] : kinds) all.push_back(std::move(series));
  return all;
}

MarkChart drawing_of(const Roofline& roofline) {
  const Roof& roof = roofline.roof;
  const double ridge = roof.ridge();
  const double column = column_without_flops(roofline);
  MarkChart chart{.series = series_of(roofline, column)};
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

/// The calls of an op in a block are one, products apart from what is none.
void add_op(const OpTime& op, std::vector<RoofedWork>& all) {
  if (op.bytes <= 0) return;
  std::string name = fmt::format("{} {}", op.block, op.op);
  const auto same = std::ranges::find_if(all, [&](const RoofedWork& other) {
    return other.name == name && (other.flops > 0) == (op.flops > 0);
  });
  if (same == all.end()) {
    all.push_back({std::move(name), name_of(op.op_class), static_cast<std::size_t>(op.op_class),
                   hue_of(op.op_class), name_of(op.bound), op.flops, op.bytes, op.seconds});
    return;
  }
  same->seconds += op.seconds;
  same->flops += op.flops;
  same->bytes += op.bytes;
}

void sort_longest_first(std::vector<RoofedWork>& work) {
  std::ranges::stable_sort(work, std::ranges::greater(), &RoofedWork::seconds);
}

Hue hue_of(WorkClass kind) {
  switch (kind) {
    case WorkClass::product:
      return hue_of(OpClass::contraction);
    case WorkClass::attention:
      return Hue::purple;
    case WorkClass::convolution:
      return Hue::wine;
    case WorkClass::memory:
      return hue_of(OpClass::elementwise);
    case WorkClass::message:
    case WorkClass::copy:
    case WorkClass::unknown:
      return Hue::grey;
  }
  unreachable("every class of work has a colour");
}

}  // namespace

double Roof::at(double intensity) const { return std::min(peak, intensity * bandwidth); }

Roofline roofline_of(const Job& job, const TimeEstimate& time) {
  const double bandwidth = job.hardware.gpu.memory_bandwidth->value.value();
  Roofline roofline{{bandwidth, bandwidth * time.ridge_point}, time.step, {}};
  for (const OpTime& op : time.ops) add_op(op, roofline.work);
  sort_longest_first(roofline.work);
  return roofline;
}

Roofline roofline_of(const GpuSpec& gpu, const RecordedTime& time) {
  Roofline roofline{{gpu.memory_bandwidth->value.value(), time.peak->value()}, time.step, {}};
  for (const RecordedWorkTime& op : time.operators) {
    const bool is_sent = op.kind == WorkClass::message || op.kind == WorkClass::copy;
    if (is_sent || op.bytes == Bytes() || op.seconds <= Seconds()) continue;
    const double flops = op.flops.as_double();
    const double bytes = op.bytes.as_double();
    const Bound bound = flops / bytes < roofline.roof.ridge() ? Bound::memory : Bound::compute;
    roofline.work.push_back({op.name, name_of(op.kind), static_cast<std::size_t>(op.kind),
                             hue_of(op.kind), name_of(bound), flops, bytes, op.seconds});
  }
  sort_longest_first(roofline.work);
  return roofline;
}

double share_of_roof(const RoofedWork& work, const Roof& roof) {
  const double seconds = work.seconds.value();
  // Left of the ridge the roof is intensity times bandwidth, so the share is one of the bandwidth;
  // right of it one of the peak.
  if (work.flops > 0) return work.flops / seconds / roof.at(work.flops / work.bytes);
  return work.bytes / seconds / roof.bandwidth;
}

std::string reached_text(const RoofedWork& work) {
  const double seconds = work.seconds.value();
  return work.flops > 0 ? rate_text(FlopsPerSecond(work.flops / seconds))
                        : rate_text(BytesPerSecond(work.bytes / seconds));
}

Chart roofline_chart(Roofline roofline) {
  return {"Operations below the roof.",
          "An area is a share of the step's time. Operations that count no FLOPs stand in the left "
          "column, as far below the roof as they are below the bandwidth.",
          [roofline = std::move(roofline)] { return drawing_of(roofline); }};
}

}  // namespace memest
