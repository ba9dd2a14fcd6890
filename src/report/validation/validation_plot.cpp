// A scatter of predicted over measured bytes, as one SVG file that needs nothing beside it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "memest/report/numbers.hpp"
#include "memest/report/validation_report.hpp"
#include "memest/units/text.hpp"
#include "report/pages/replaced.hpp"
#include "report/pages/svg.hpp"

namespace memest {
namespace {

// Pixels.
constexpr double kErrorsWidth = 900;
constexpr double kErrorsHeight = 720;
constexpr double kErrorsMargin = 70;
constexpr double kLegendLine = 18;

struct Point {
  const ValidatedRun* run;
  const Comparison* comparison;
  double measured;
  double predicted;
};

double whole_of(const std::variant<std::monostate, Int128, double>& figure) {
  const auto* whole = std::get_if<Int128>(&figure);
  return whole == nullptr ? 0 : static_cast<double>(*whole);
}

std::vector<Point> points_of(const std::vector<ValidatedRun>& runs) {
  std::vector<Point> points;
  for (const ValidatedRun& run : runs) {
    for (const Metric metric : {Metric::allocated_peak_bytes, Metric::reserved_peak_bytes}) {
      const Comparison* comparison = run.worst(metric);
      if (comparison == nullptr) continue;
      const auto measured = static_cast<double>(std::get<Int128>(comparison->measured));
      const double predicted = whole_of(comparison->predicted);
      if (measured > 0 && predicted > 0) points.push_back({&run, comparison, measured, predicted});
    }
  }
  return points;
}

/// Both axes alike: powers of two, so that the diagonal is where a prediction is right.
struct PlotAxis {
  int low = 30;  ///< exponents of two
  int high = 31;

  explicit PlotAxis(const std::vector<Point>& points) {
    for (const Point& point : points) {
      for (const double bytes : {point.measured, point.predicted}) {
        low = std::min(low, static_cast<int>(std::floor(std::log2(bytes))));
        high = std::max(high, static_cast<int>(std::ceil(std::log2(bytes))));
      }
    }
  }
  [[nodiscard]] double share(double bytes) const { return (std::log2(bytes) - low) / (high - low); }
  [[nodiscard]] double x(double bytes) const {
    return kErrorsMargin + share(bytes) * (kErrorsWidth - 2 * kErrorsMargin);
  }
  // SVG counts y from the top.
  [[nodiscard]] double y(double bytes) const {
    return kErrorsHeight - kErrorsMargin - share(bytes) * (kErrorsHeight - 2 * kErrorsMargin);
  }
};

std::string frame_of(const PlotAxis& axis) {
  std::string out;
  for (int exponent = axis.low; exponent <= axis.high; ++exponent) {
    const double bytes = std::exp2(exponent);
    const std::string label = sized_text(Bytes(static_cast<std::int64_t>(bytes)));
    const double x = axis.x(bytes);
    const double y = axis.y(bytes);
    out += svg_line({x, kErrorsMargin, x, kErrorsHeight - kErrorsMargin}, "#ddd");
    out += svg_line({kErrorsMargin, y, kErrorsWidth - kErrorsMargin, y}, "#ddd");
    out += svg_text(x, kErrorsHeight - kErrorsMargin + 18, "middle", label);
    out += svg_text(kErrorsMargin - 6, y + 4, "end", label);
  }
  const double low = std::exp2(axis.low);
  const double high = std::exp2(axis.high);
  out += svg_line({axis.x(low), axis.y(low), axis.x(high), axis.y(high)}, "#888");
  out += svg_text(kErrorsWidth / 2, kErrorsHeight - 14, "middle", "measured");
  out += svg_text(kErrorsMargin, kErrorsMargin - 30, "start", "predicted");
  return out;
}

/// Allocated peaks are filled, reserved ones hollow; the pointer over one tells which it is.
std::string mark_of(const Point& point, const PlotAxis& axis, const char* color) {
  const bool filled = point.comparison->metric == Metric::allocated_peak_bytes;
  const std::string title = fmt::format(
      "{}, {}: measured {}, predicted {}, {:+.3f} %", point.run->id,
      name_of(point.comparison->metric), grouped(std::get<Int128>(point.comparison->measured)),
      grouped(static_cast<Int128>(point.predicted)), 100 * point.comparison->error());
  return fmt::format(
      "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" stroke=\"{}\" fill=\"{}\" "
      "fill-opacity=\"0.5\"><title>{}</title></circle>\n",
      axis.x(point.measured), axis.y(point.predicted), color, filled ? color : "none", xml(title));
}

}  // namespace

std::string scatter_of(const std::vector<ValidatedRun>& runs) {
  const std::vector<Point> points = points_of(runs);
  const PlotAxis axis(points);
  std::map<std::string, const char*> colors;
  for (const Point& point : points) colors.try_emplace(point.run->group);
  std::string legend;
  std::size_t next = 0;
  for (auto& [group, color] : colors) {
    const double y = kErrorsMargin + kLegendLine * static_cast<double>(next + 1);
    color = kSvgColors[next++ % kSvgColors.size()];
    legend += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"{}\"/>\n", kErrorsMargin + 14,
                          y - 4, color);
    legend += svg_text(kErrorsMargin + 24, y, "start", group);
  }
  const double note_y = kErrorsMargin + kLegendLine * static_cast<double>(next + 1);
  legend += svg_text(kErrorsMargin + 24, note_y, "start",
                     "filled: allocated peak; hollow: reserved peak");
  std::string body = frame_of(axis) + legend;
  for (const Point& point : points) body += mark_of(point, axis, colors.at(point.run->group));
  return svg_of(kErrorsWidth, kErrorsHeight, body);
}

}  // namespace memest
