#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "memest/report/chart.hpp"
#include "memest/report/display.hpp"
#include "report/html/palette.hpp"
#include "report/pages/replaced.hpp"
#include "report/pages/svg.hpp"

namespace memest {
namespace {

// Pixels.
constexpr double kStillWidth = 960;
constexpr double kLine = 16;     ///< from a line of text to the next
constexpr double kLetter = 6.6;  ///< the usual width of a sign
constexpr double kLaneHeight = 34;
constexpr double kNameColumn = 230;
constexpr double kMark = 4;
constexpr double kLargestMark = 26;

constexpr const char* kGrid = "#dddddd";
constexpr const char* kInk = "#444444";

double width_of(const std::string& text) {
  return kLetter * static_cast<double>(display_width(text));
}

double radius_of(const ChartMark& mark) {
  // An area that is the share needs a radius that is its root.
  return mark.share > 0 ? std::max(3.0, kLargestMark * std::sqrt(mark.share)) : kMark;
}

/// A mark whose name stands in the column: where it is, and where its name goes.
struct NamedMark {
  std::string name;
  double x = 0;
  double y = 0;
  double line = 0;
};

/// The lines of text in [top, bottom], each as near to its mark as the others let it.
void place_names(std::vector<NamedMark>& names, double top, double bottom) {
  std::ranges::stable_sort(names, {}, &NamedMark::y);
  double next = top;
  for (NamedMark& named : names) next = (named.line = std::max(named.y, next)) + kLine;
  double last = bottom;
  for (auto named = names.rbegin(); named != names.rend(); ++named) {
    last = (named->line = std::min(named->line, last)) - kLine;
  }
}

class MarkDrawing {
 public:
  explicit MarkDrawing(const MarkChart& chart) : chart_(chart) {
    for (const AxisTick& tick : chart.y.ticks) left_ = std::max(left_, width_of(tick.text) + 16);
    std::size_t named = 0;
    for (const ChartSeries& series : chart.series) {
      if (series.labelled) named += series.marks.size();
    }
    if (named > 0) right_ = kNameColumn;
    top_ = (legend_lines() + 1) * kLine + 20;
    const double lanes = static_cast<double>(chart.y.ticks.size()) * kLaneHeight;
    const double rows = static_cast<double>(named + 1) * kLine;
    height_ = std::max(chart.y.lanes ? lanes : 440.0, rows);
  }

  [[nodiscard]] std::string draw() const {
    const std::string body = frame() + legend() + lines() + marks();
    return svg_of(kStillWidth, top_ + height_ + 3.5 * kLine, body);
  }

 private:
  [[nodiscard]] double x(double number) const {
    return left_ + chart_.x.place(number) * (kStillWidth - left_ - right_);
  }
  // SVG counts y from the top, as lanes do.
  [[nodiscard]] double y(double number) const {
    const double share = chart_.y.place(number);
    return top_ + (chart_.y.lanes ? share : 1 - share) * height_;
  }

  [[nodiscard]] std::string frame() const {
    std::string out;
    double free_from = 0;
    for (const AxisTick& tick : chart_.x.ticks) {
      const double at = x(tick.at);
      out += svg_line({at, top_, at, top_ + height_}, kGrid);
      if (at - width_of(tick.text) / 2 < free_from) continue;
      free_from = at + width_of(tick.text) / 2 + kLetter;
      out += svg_text(at, top_ + height_ + kLine + 2, "middle", tick.text);
    }
    for (const AxisTick& tick : chart_.y.ticks) {
      out += svg_line({left_, y(tick.at), kStillWidth - right_, y(tick.at)}, kGrid);
      out += svg_text(left_ - 6, y(tick.at) + 4, "end", tick.text);
    }
    out += svg_text((left_ + kStillWidth - right_) / 2, top_ + height_ + 2.6 * kLine, "middle",
                    chart_.x.title);
    return out + svg_text(6, top_ - 12, "start", chart_.y.title);
  }

  /// Calls `place` with every name's left edge and line.
  template <class Place>
  double walk_legend(const Place& place) const {
    double at = 6;
    double line = 1;
    for (const ChartSeries& series : chart_.series) {
      const double width = width_of(series.name) + 36;
      if (at > 6 && at + width > kStillWidth) {
        at = 6;
        ++line;
      }
      place(series, at, line);
      at += width;
    }
    return line;
  }
  [[nodiscard]] double legend_lines() const {
    return walk_legend([](const ChartSeries&, double, double) {});
  }
  [[nodiscard]] std::string legend() const {
    std::string out;
    walk_legend([&out](const ChartSeries& series, double at, double line) {
      out += circle(series, at + 6, line * kLine, kMark) + "/>\n";
      out += svg_text(at + 16, line * kLine + 4, "start", series.name);
    });
    return out;
  }

  [[nodiscard]] std::string lines() const {
    std::string out;
    for (const ChartLine& line : chart_.lines) {
      out += path(line.points, kInk);
      if (line.name.empty()) continue;
      const auto& [at_x, at_y] = line.points[line.name_at];
      const bool late = chart_.x.place(at_x) > 0.6;
      out += svg_text(x(at_x) + (late ? -4 : 4), y(at_y) - 6, late ? "end" : "start", line.name);
    }
    return out;
  }

  [[nodiscard]] std::string marks() const {
    std::string marks;
    std::string leaders;
    std::vector<NamedMark> names;
    for (const ChartSeries& series : chart_.series) {
      std::vector<std::pair<double, double>> course;
      for (const ChartMark& mark : series.marks) {
        course.emplace_back(mark.x, mark.y);
        marks += circle(series, x(mark.x), y(mark.y), radius_of(mark));
        marks += fmt::format("><title>{}</title></circle>\n", xml(mark.name + ": " + mark.detail));
        if (series.labelled) names.push_back({mark.name, x(mark.x), y(mark.y)});
      }
      if (series.joined) marks += path(course, colors_of(series.hue).light);
    }
    place_names(names, top_ + 4, top_ + height_ - 4);
    const double column = kStillWidth - right_ + 16;
    for (const NamedMark& named : names) {
      leaders += svg_line({named.x, named.y, column - 4, named.line}, kGrid);
      leaders += svg_text(column, named.line + 4, "start", named.name);
    }
    return leaders + marks;
  }

  [[nodiscard]] static std::string circle(const ChartSeries& series, double x, double y, double r) {
    const char* color = colors_of(series.hue).light;
    return fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" stroke=\"{}\" fill=\"{}\" "
        "fill-opacity=\"0.6\"",
        x, y, r, color, series.hollow ? "none" : color);
  }
  [[nodiscard]] std::string path(const std::vector<std::pair<double, double>>& points,
                                 const char* color) const {
    std::string out = fmt::format("<polyline fill=\"none\" stroke=\"{}\" points=\"", color);
    for (const auto& [at_x, at_y] : points) out += fmt::format("{:.1f},{:.1f} ", x(at_x), y(at_y));
    return out + "\"/>\n";
  }

  const MarkChart& chart_;
  double left_ = 40;
  double right_ = 40;
  double top_ = 0;
  double height_ = 0;
};

}  // namespace

std::string svg_of(const MarkChart& chart) { return MarkDrawing(chart).draw(); }

}  // namespace memest
