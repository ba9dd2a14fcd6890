#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/report/chart.hpp"
#include "memest/report/numbers.hpp"

namespace memest {
namespace {

constexpr std::array kSteps = {1.0, 2.0, 5.0};

/// A number's place before the axis is stretched from low to high.
double scaled(const ChartAxis& axis, double number) {
  switch (axis.scale) {
    case AxisScale::linear:
      return number;
    case AxisScale::logarithmic:
      return std::log10(number);
    case AxisScale::symmetric:
      return std::copysign(std::log10(1 + std::abs(number) / axis.least), number);
  }
  unreachable("a scale beyond the enum");
}

/// The n-th of ..., 1, 2, 5, 10, 20, 50, ...
double step_of(int n) {
  constexpr int kCount = static_cast<int>(kSteps.size());
  const int power = n >= 0 ? n / kCount : (n - kCount + 1) / kCount;
  return kSteps[static_cast<std::size_t>(n - power * kCount)] * std::pow(10, power);
}

/// The largest n whose step is not above `number`, which is above zero.
int step_below(double number) {
  int n = static_cast<int>(std::floor(3 * std::log10(number))) - 1;
  while (step_of(n + 1) <= number * (1 + 1e-12)) ++n;
  return n;
}

std::vector<double> linear_ticks(double low, double high, double unit) {
  constexpr double kMost = 6;
  const double range = high > low ? high - low : std::max(std::abs(high), unit);
  const double step = unit * step_of(step_below(range / unit / kMost) + 1);
  std::vector<double> ticks;
  const double first = std::floor(low / step);
  const double last = std::max(std::ceil(high / step), first + 1);
  for (double i = first; i <= last; ++i) ticks.push_back(i * step);
  return ticks;
}

/// Every 1, 2 and 5 over a short range, powers of ten over a long one.
std::vector<double> logarithmic_ticks(double low, double high, double unit) {
  constexpr int kShort = 7;
  const int first = step_below(low / unit);
  int last = step_below(high / unit);
  if (step_of(last) * unit < high * (1 - 1e-12) || last == first) ++last;
  std::vector<double> ticks;
  if (last - first <= kShort) {
    for (int n = first; n <= last; ++n) ticks.push_back(unit * step_of(n));
    return ticks;
  }
  const double begin = std::floor(std::log10(low / unit));
  const double end = std::ceil(std::log10(high / unit));
  const double every = std::ceil((end - begin) / kShort);
  for (double power = begin; power < end + every; power += every) {
    ticks.push_back(unit * std::pow(10, power));
  }
  return ticks;
}

/// Zero, and to each side that has numbers the least and its powers of ten.
std::vector<double> symmetric_ticks(double low, double high, double least) {
  std::vector<double> ticks = {0};
  for (double tick = -least; ticks.front() > low; tick *= 10) ticks.insert(ticks.begin(), tick);
  for (double tick = least; ticks.back() < high; tick *= 10) ticks.push_back(tick);
  return ticks;
}

std::vector<double> ticks_over(const AxisRuler& ruler, double low, double high) {
  switch (ruler.scale) {
    case AxisScale::linear:
      return linear_ticks(low, high, ruler.unit);
    case AxisScale::logarithmic:
      return logarithmic_ticks(low, high, ruler.unit);
    case AxisScale::symmetric:
      return symmetric_ticks(low, high, ruler.least);
  }
  unreachable("a scale beyond the enum");
}

}  // namespace

double ChartAxis::place(double number) const {
  const double begin = scaled(*this, low);
  return (scaled(*this, number) - begin) / (scaled(*this, high) - begin);
}

ChartAxis axis_over(std::string title, const AxisRuler& ruler, const std::vector<double>& numbers) {
  const bool none = numbers.empty();
  const double low = none ? ruler.unit : *std::ranges::min_element(numbers);
  const double high = none ? ruler.unit : *std::ranges::max_element(numbers);
  ChartAxis axis{.title = std::move(title), .scale = ruler.scale, .least = ruler.least};
  for (const double at : ticks_over(ruler, low, high)) axis.ticks.push_back({at, ruler.write(at)});
  axis.low = axis.ticks.front().at;
  axis.high = axis.ticks.back().at;
  return axis;
}

AxisRuler ruler_of_bytes(AxisScale scale) {
  constexpr double kGibibyte = 1024.0 * 1024 * 1024;
  return {.scale = scale,
          .write = [](double bytes) { return significant_text(bytes / kGibibyte) + " GiB"; },
          .unit = kGibibyte};
}

ChartAxis lanes_of(std::vector<std::string> names) {
  ChartAxis axis{.lanes = true};
  axis.low = -0.5;
  axis.high = static_cast<double>(names.size()) - 0.5;
  for (std::size_t i = 0; i < names.size(); ++i) {
    axis.ticks.push_back({static_cast<double>(i), std::move(names[i])});
  }
  return axis;
}

}  // namespace memest
