// A chart is a drawing as data: marks against two axes, areas that add up, or memory over the
// events of a step. The page for a browser draws it, and marks against axes are drawn as SVG too;
// text and markdown leave it out, and say its numbers in tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace memest {

/// A colour's place in the one table of colours (src/report/html/palette.cpp).
enum class Hue : std::uint8_t { indigo, rose, teal, sand, cyan, purple, green, wine, olive, grey };
inline constexpr std::size_t kHues = static_cast<std::size_t>(Hue::grey) + 1;

/// How a number becomes a place on an axis.
enum class AxisScale : std::uint8_t {
  linear,
  logarithmic,  ///< of numbers above zero
  symmetric     ///< logarithmic to both sides of zero, linear within `ChartAxis::least` of it
};

/// A number that an axis writes out, and how.
struct AxisTick {
  double at = 0;
  std::string text = {};
};

/// An axis from `low` to `high`, the number of every mark between them.
struct ChartAxis {
  std::string title = {};
  AxisScale scale = AxisScale::linear;
  double low = 0;
  double high = 1;
  std::vector<AxisTick> ticks = {};
  double least = 1;    ///< of the symmetric scale
  bool lanes = false;  ///< the ticks are names, from the top down

  /// Share of the way from low to high.
  [[nodiscard]] double place(double number) const;
};

struct ChartMark {
  double x = 0;
  double y = 0;
  std::string name = {};
  std::string detail = {};  ///< what is said of it under the pointer, beside its name
  double share = 0;         ///< its area, of the largest that there may be; 0: the usual mark's
};

/// Marks that are one thing, in one colour.
struct ChartSeries {
  std::string name = {};
  Hue hue = Hue::indigo;
  bool hollow = false;
  bool joined = false;    ///< by a line, in their order
  bool labelled = false;  ///< each mark's name stands beside the drawing
  std::vector<ChartMark> marks = {};
};

/// A line through points {x, y}, with its name at one of them.
struct ChartLine {
  std::string name = {};
  std::vector<std::pair<double, double>> points = {};
  std::size_t name_at = 0;
};

struct MarkChart {
  ChartAxis x = {};
  ChartAxis y = {};
  std::vector<ChartSeries> series = {};
  std::vector<ChartLine> lines = {};
};

/// An area in proportion to its number, within that of its parent.
struct ChartArea {
  std::string name = {};
  std::string text = {};  ///< the number, for people
  double number = 0;
  Hue hue = Hue::indigo;
  std::vector<ChartArea> parts = {};
};

struct AreaChart {
  std::vector<ChartArea> areas;
};

/// Storages are allocated and freed, one an event, each of a kind.
struct CourseChart {
  struct Kind {
    std::string name = {};
    Hue hue = Hue::indigo;
  };
  struct Stretch {
    std::string name = {};   ///< of a phase
    std::string group = {};  ///< "step 1"; neighbours of one group share its name
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };
  /// Why the course ends before its last event.
  struct Failure {
    std::string sentence = {};
    std::int64_t bytes = 0;  ///< that were asked for
  };
  std::vector<Kind> kinds;
  std::vector<std::int64_t> events;  ///< a storage that is allocated, or -1 - one that is freed
  std::vector<std::pair<std::uint32_t, std::int64_t>> reserved;  ///< from an event on, bytes
  std::vector<std::int64_t> bytes;                               ///< by storage
  std::vector<std::size_t> kind;                                 ///< by storage
  std::vector<std::size_t> name;                                 ///< by storage, into `names`
  std::vector<std::string> names;
  std::vector<Stretch> stretches;
  std::uint32_t peak = 0;
  std::int64_t capacity = 0;  ///< bytes that the allocator may reserve
  std::optional<Failure> failure;
};

using Drawing = std::variant<MarkChart, AreaChart, CourseChart>;

/// A drawing with its name and a sentence that says how it is read. It is drawn where a format has
/// room for it, and only then.
struct Chart {
  std::string name = {};
  std::string reading;
  std::function<Drawing()> draw;
};

/// How an axis is divided and its numbers are written.
struct AxisRuler {
  AxisScale scale = AxisScale::linear;
  std::function<std::string(double)> write = {};
  double unit = 1;   ///< steps are 1, 2 or 5 times a power of ten of it
  double least = 1;  ///< of the symmetric scale
};

/// An axis over all `numbers`, from a step to a step. A logarithmic one takes none that is not
/// above zero.
ChartAxis axis_over(std::string title, const AxisRuler& ruler, const std::vector<double>& numbers);

/// "1.5 GiB", by steps of GiB.
AxisRuler ruler_of_bytes(AxisScale scale);

/// An axis with a lane for each name.
ChartAxis lanes_of(std::vector<std::string> names);

/// The chart as one SVG drawing that needs nothing beside it. Names of labelled series stand in a
/// column of their own, so that none covers another.
std::string svg_of(const MarkChart& chart);

}  // namespace memest
