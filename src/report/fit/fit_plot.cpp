// Memory against the step's time, as one SVG file that needs nothing beside it.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "memest/report/fit_report.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/fit/rung_text.hpp"
#include "report/pages/replaced.hpp"
#include "report/pages/svg.hpp"

namespace memest {
namespace {

// Pixels.
constexpr double kFitWidth = 900;
constexpr double kFitHeight = 560;
constexpr double kFitMargin = 80;

/// From nothing to a tenth beyond the largest.
struct PlotAxes {
  double memory = 0;  ///< bytes at the right edge
  double step = 0;    ///< seconds at the upper one

  explicit PlotAxes(const FitLadder& ladder) : memory(ladder.capacity.as_double()) {
    take(ladder.own);
    for (const Rung& rung : ladder.rungs) take(rung);
    constexpr double kRoom = 1.1;
    memory *= kRoom;
    step = step > 0 ? step * kRoom : 1;
  }
  void take(const Rung& rung) {
    memory = std::max(memory, rung.taken.as_double());
    if (rung.step) step = std::max(step, rung.step->value());
  }
  [[nodiscard]] double x(double bytes) const {
    return kFitMargin + bytes / memory * (kFitWidth - 2 * kFitMargin);
  }
  // SVG counts y from the top.
  [[nodiscard]] double y(double seconds) const {
    return kFitHeight - kFitMargin - seconds / step * (kFitHeight - 2 * kFitMargin);
  }
};

std::string frame_of(const PlotAxes& axes, const FitLadder& ladder) {
  constexpr int kLines = 5;
  std::string out;
  for (int i = 0; i <= kLines; ++i) {
    const double bytes = axes.memory * i / kLines;
    const double seconds = axes.step * i / kLines;
    out += svg_line({axes.x(bytes), kFitMargin, axes.x(bytes), kFitHeight - kFitMargin}, "#ddd");
    out += svg_line({kFitMargin, axes.y(seconds), kFitWidth - kFitMargin, axes.y(seconds)}, "#ddd");
    out += svg_text(axes.x(bytes), kFitHeight - kFitMargin + 18, "middle",
                    sized_text(Bytes(static_cast<std::int64_t>(bytes))));
    out += svg_text(kFitMargin - 6, axes.y(seconds) + 4, "end", seconds_text(Seconds(seconds)));
  }
  const double capacity = axes.x(ladder.capacity.as_double());
  out += svg_line({capacity, kFitMargin, capacity, kFitHeight - kFitMargin}, kSvgColors[1]);
  out += svg_text(capacity, kFitMargin - 8, "middle", "capacity");
  out += svg_text(kFitWidth / 2, kFitHeight - 24, "middle", "memory of the GPU that takes most");
  out += svg_text(kFitMargin, kFitMargin - 30, "start", "a step of the same global batch");
  return out;
}

std::string mark_of(const Rung& rung, const FitLadder& ladder, const PlotAxes& axes) {
  if (!rung.step) return "";
  const bool fits = rung.verdict == Verdict::fits;
  const std::string title = fmt::format("{}: {}, {}", name_of(rung, ladder), sized_text(rung.taken),
                                        seconds_text(*rung.step));
  return fmt::format(
      "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" stroke=\"{}\" fill=\"{}\" "
      "fill-opacity=\"0.6\"><title>{}</title></circle>\n",
      axes.x(rung.taken.as_double()), axes.y(rung.step->value()), rung.techniques.empty() ? 7 : 4,
      kSvgColors[0], fits ? kSvgColors[2] : "none", xml(title));
}

std::string front_of(const FitLadder& ladder, const PlotAxes& axes) {
  std::string out;
  for (std::size_t i = 1; i < ladder.front.size(); ++i) {
    const Rung& left = ladder.rungs[ladder.front[i - 1]];
    const Rung& right = ladder.rungs[ladder.front[i]];
    out += svg_line({axes.x(left.taken.as_double()), axes.y(left.step->value()),
                     axes.x(right.taken.as_double()), axes.y(right.step->value())},
                    kSvgColors[2]);
  }
  return out;
}

}  // namespace

std::string ladder_svg(const FitLadder& ladder) {
  const PlotAxes axes(ladder);
  std::string body = frame_of(axes, ladder) + front_of(ladder, axes);
  body += mark_of(ladder.own, ladder, axes);
  for (const Rung& rung : ladder.rungs) body += mark_of(rung, ladder, axes);
  body += svg_text(kFitWidth - kFitMargin, kFitMargin - 30, "end",
                   "filled: fits; joined: no other is better in both; large: as written");
  return svg_of(kFitWidth, kFitHeight, body);
}

}  // namespace memest
