#include "report/timeline/timeline_curve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memest/report/display.hpp"
#include "memest/report/numbers.hpp"

namespace memest {
namespace {

constexpr std::size_t kCurveRows = 14;
constexpr std::size_t kLabelColumns = 14;  // "1,023.99 GiB" and a gap
constexpr std::int64_t kEighths = 8;       // of a row

constexpr std::array<std::string_view, kEighths + 1> kFilled = {" ", "▁", "▂", "▃", "▄",
                                                                "▅", "▆", "▇", "█"};
constexpr std::string_view kReserved = "░";

// A micro-step of fewer columns than these is not drawn for itself.
constexpr std::size_t kMicroStepColumns = 18;
constexpr std::size_t kShortestName = 3;

/// The most that was allocated and reserved in a column.
struct ChartColumn {
  Bytes allocated;
  Bytes reserved;
};

/// A named stretch of events, [begin, end).
struct NamedStretch {
  std::string name;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

class Curve {
 public:
  Curve(const DrawnCurve& drawn, std::size_t columns)
      : drawn_(drawn), columns_(columns - kLabelColumns - 2), events_(drawn.points.size()) {
    samples_.resize(columns_);
    for (std::size_t column = 0; column < columns_ && events_ > 0; ++column) {
      // A column stands for many events and shows the highest, so that no peak is lost; where it
      // has less than one, it repeats its neighbour.
      const std::size_t begin = column * events_ / columns_;
      const std::size_t end = std::max(begin + 1, (column + 1) * events_ / columns_);
      for (std::size_t i = begin; i < end; ++i) {
        const CoursePoint& point = drawn.points[i];
        samples_[column].allocated = std::max(samples_[column].allocated, point.allocated);
        samples_[column].reserved = std::max(samples_[column].reserved, point.reserved);
      }
      top_ = std::max(top_, samples_[column].reserved);
    }
  }

  std::vector<std::string> draw() const {
    std::vector<std::string> lines = {peak_line()};
    for (std::size_t row = kCurveRows; row-- > 0;) lines.push_back(row_line(row));
    std::string axis;
    for (std::size_t i = 0; i < columns_; ++i) axis += "─";
    lines.push_back(labelled("0", "└" + axis));
    lines.push_back(labelled("", " " + stretch_line(steps())));
    lines.push_back(labelled("", " " + stretch_line(phases())));
    return lines;
  }

 private:
  [[nodiscard]] static std::string labelled(std::string_view label, const std::string& line) {
    return padded_left(label, kLabelColumns) + " " + line;
  }

  [[nodiscard]] std::size_t column_of(std::uint32_t event) const {
    return events_ == 0 ? 0 : std::min<std::size_t>(event * columns_ / events_, columns_);
  }

  /// The height of `bytes` in eighths of a row.
  [[nodiscard]] std::int64_t height_of(Bytes bytes) const {
    if (top_ == Bytes()) return 0;
    const double share = bytes.as_double() / top_.as_double();
    return std::llround(share * static_cast<double>(kCurveRows * kEighths));
  }

  [[nodiscard]] std::string peak_line() const {
    const std::size_t column = column_of(drawn_.peak);
    const std::string text = fmt::format("peak {}", sized_text(drawn_.allocated));
    // To the right of the mark, or to the left where it would leave the chart.
    const bool right = column + text.size() + 2 <= columns_;
    const std::string before(right ? column : column - text.size() - 1, ' ');
    return labelled("", " " + before + (right ? "▾ " + text : text + " ▾"));
  }

  [[nodiscard]] std::string row_line(std::size_t row) const {
    const auto bottom = static_cast<std::int64_t>(row) * kEighths;
    std::string line = "│";
    for (const ChartColumn& sample : samples_) {
      const std::int64_t filled =
          std::clamp<std::int64_t>(height_of(sample.allocated) - bottom, std::int64_t{0}, kEighths);
      // Shade has no eighths: a cell is reserved where more than half of it is.
      const bool reserved = height_of(sample.reserved) - bottom > kEighths / 2;
      line += filled == 0 && reserved ? kReserved : kFilled[static_cast<std::size_t>(filled)];
    }
    const bool is_top = row + 1 == kCurveRows;
    const bool is_middle = row + 1 == kCurveRows / 2;
    return labelled(is_top      ? sized_text(top_)
                    : is_middle ? sized_text(Bytes(top_.value() / 2))
                                : "",
                    line);
  }

  [[nodiscard]] std::vector<NamedStretch> steps() const {
    std::vector<NamedStretch> result;
    std::int64_t step = 0;
    for (const CurvePhase& phase : drawn_.phases) {
      if (result.empty() || phase.step != step) {
        result.push_back(
            {phase.step == 0 ? "model" : fmt::format("step {}", phase.step), phase.begin});
      }
      step = phase.step;
      result.back().end = phase.end;
    }
    return result;
  }

  /// "3 × forward, backward"; of many the first stand for all (write_timeline).
  [[nodiscard]] std::string micro_steps_name(std::int64_t count) const {
    if (count == drawn_.micro_steps) return fmt::format("{} × forward, backward", count);
    return fmt::format("{} of {} × forward, backward", count, drawn_.micro_steps);
  }

  /// Phases, where micro-steps have room; else the micro-steps of a step as one.
  [[nodiscard]] std::vector<NamedStretch> phases() const {
    std::vector<NamedStretch> result;
    const std::vector<CurvePhase>& all = drawn_.phases;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].step == 0) continue;
      std::size_t last = i;
      while (last + 1 < all.size() && all[last + 1].step == all[i].step && all[i].micro_step > 0 &&
             all[last + 1].micro_step > 0) {
        ++last;
      }
      const std::int64_t count = all[last].micro_step;
      const std::size_t columns = column_of(all[last].end) - column_of(all[i].begin);
      const bool has_room = columns >= static_cast<std::size_t>(count) * kMicroStepColumns;
      if (count > 1 && all[i].micro_step == 1 && !has_room) {
        result.push_back({micro_steps_name(count), all[i].begin, all[last].end});
        i = last;
      } else {
        result.push_back({all[i].name, all[i].begin, all[i].end});
      }
    }
    return result;
  }

  /// The names side by side, each at its first column and cut where the next begins.
  [[nodiscard]] std::string stretch_line(const std::vector<NamedStretch>& stretches) const {
    std::string line;
    std::size_t used = 0;
    for (const NamedStretch& stretch : stretches) {
      const std::size_t begin = column_of(stretch.begin);
      const std::size_t end =
          column_of(std::min<std::uint32_t>(stretch.end, static_cast<std::uint32_t>(events_)));
      if (begin < used || end <= begin) continue;
      line += std::string(begin - used, ' ') + "│";
      used = begin + 1;
      const auto cells = display_cells(stretch.name, {});
      const std::size_t room = std::min(end - used, cells.size());
      if (room < std::min(kShortestName, cells.size())) continue;
      line += stretch.name.substr(0, cells[room - 1].end);
      used += room;
    }
    return line;
  }

  const DrawnCurve& drawn_;
  std::size_t columns_;
  std::size_t events_;
  std::vector<ChartColumn> samples_;
  Bytes top_;
};

}  // namespace

Figure curve_of(DrawnCurve drawn) {
  return {[drawn = std::move(drawn)](std::size_t columns) { return Curve(drawn, columns).draw(); }};
}

Figure curve_of(const TimelineRun& run) {
  const auto& training = run.job.training;
  DrawnCurve drawn{.points = run.course.points,
                   .peak = run.memory.replay.peak.event,
                   .allocated = run.memory.replay.peak.allocated,
                   .phases = {},
                   .micro_steps = training ? training->gradient_accumulation : 1};
  for (const Span& span : run.memory.timeline.spans) {
    drawn.phases.push_back(
        {std::string(name_of(span.phase)), span.step, span.micro_step, span.begin, span.end});
  }
  return curve_of(std::move(drawn));
}

}  // namespace memest
