// Intervals of whole runs, of published ones, that hold for sources which had no part in them.
#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "memest/plan/residuals.hpp"
#include "plan/accuracy/rounded_share.hpp"

namespace memest {
namespace {

/// Share of a left-out source's runs that an interval made from the other sources is to hold.
constexpr double kClaimed = 0.8;
/// Shares of the runs that may lie between the ends: beyond the last, single runs are the ends.
constexpr int kLeastPercent = 80;
constexpr int kMostPercent = 99;

/// Measured over expected, of one run.
struct Ratio {
  double value = 1;
  const RunSource* source = nullptr;
};

/// Shares of what is expected.
struct Ends {
  double low = 0;
  double high = 0;

  [[nodiscard]] bool hold(double ratio) const { return 1 - low <= ratio && ratio <= 1 + high; }
};

/// The first of `metrics` that the run has, of the rank that is farthest off.
const Comparison* first_of(const ValidatedRun& run, std::initializer_list<Metric> metrics) {
  for (const Metric metric : metrics) {
    if (const Comparison* found = run.worst(metric)) return found;
  }
  return nullptr;
}

/// Measured over expected seconds of a step, or bytes; none where nothing of it was published.
std::optional<double> ratio_of(const ValidatedRun& run, ToldFigure figure) {
  if (figure == ToldFigure::step) {
    // error() is predicted over measured less 1, so its inverse is measured over predicted; a pace
    // is the inverse of a time.
    if (const Comparison* step = run.worst(Metric::step_seconds)) return 1 / (1 + step->error());
    const Comparison* pace = run.worst(Metric::tokens_per_second_per_gpu);
    return pace == nullptr ? std::nullopt : std::optional(1 + pace->error());
  }
  const Comparison* bytes =
      figure == ToldFigure::device
          ? first_of(run, {Metric::device_bytes, Metric::reserved_peak_bytes,
                           Metric::allocated_peak_bytes})
          : first_of(run, {Metric::reserved_peak_bytes, Metric::allocated_peak_bytes});
  return bytes == nullptr ? std::nullopt : std::optional(1 / (1 + bytes->error()));
}

std::vector<Ratio> ratios_of(const std::vector<ValidatedRun>& runs, ToldFigure figure) {
  std::vector<Ratio> ratios;
  for (const ValidatedRun& run : runs) {
    if (!run.source) continue;
    const std::optional<double> ratio = ratio_of(run, figure);
    if (ratio && std::isfinite(*ratio)) ratios.push_back({*ratio, &*run.source});
  }
  return ratios;
}

/// `share` of `ratios`, which are not empty, lies between the ends, as much on either side beyond.
Ends ends_of(const std::vector<Ratio>& ratios, double share) {
  std::vector<double> values;
  for (const Ratio& ratio : ratios) values.push_back(ratio.value);
  return {rounded_up(1 - quantile(values, (1 - share) / 2)),
          rounded_up(quantile(values, (1 + share) / 2) - 1)};
}

std::string key_of(const RunSource& source, SourceKind kind) {
  switch (kind) {
    case SourceKind::framework:
      return source.framework;
    case SourceKind::gpu:
      return source.gpu;
    case SourceKind::year:
      break;
  }
  return std::to_string(source.year);
}

/// Each source of a kind in intervals of which `share` of the others' runs are made.
Coverage coverage_at(const std::vector<Ratio>& ratios, SourceKind kind, double share) {
  Coverage coverage;
  coverage.kind = kind;
  std::set<std::string> keys;
  for (const Ratio& ratio : ratios) keys.insert(key_of(*ratio.source, kind));
  for (const std::string& key : keys) {
    std::vector<Ratio> others;
    std::vector<Ratio> own;
    for (const Ratio& ratio : ratios) {
      (key_of(*ratio.source, kind) == key ? own : others).push_back(ratio);
    }
    // Leave one source out: ends made of the others' runs are held against its own.
    if (others.empty()) continue;
    const Ends ends = ends_of(others, share);
    ++coverage.sources;
    coverage.runs += static_cast<int>(own.size());
    coverage.within += static_cast<int>(std::count_if(
        own.begin(), own.end(), [&ends](const Ratio& ratio) { return ends.hold(ratio.value); }));
  }
  return coverage;
}

std::array<Coverage, kSourceKinds.size()> coverages_at(const std::vector<Ratio>& ratios,
                                                       double share) {
  std::array<Coverage, kSourceKinds.size()> coverages;
  for (std::size_t i = 0; i < coverages.size(); ++i) {
    coverages[i] = coverage_at(ratios, kSourceKinds[i], share);
  }
  return coverages;
}

double least_held(const std::array<Coverage, kSourceKinds.size()>& coverages) {
  double held = 1;
  for (const Coverage& coverage : coverages) held = std::min(held, coverage.held());
  return held;
}

/// Returns the narrowest ends of `ratios` (not empty) that hold the claimed share of every kind of
/// source left out; else the widest.
ToldInterval interval_of(const std::vector<Ratio>& ratios, ToldFigure figure) {
  int percent = kLeastPercent;
  auto coverages = coverages_at(ratios, percent / 100.0);
  // A wider share of known runs makes wider ends, so the first that holds is the narrowest.
  while (least_held(coverages) < kClaimed && percent < kMostPercent) {
    coverages = coverages_at(ratios, ++percent / 100.0);
  }
  std::set<std::string> publications;
  for (const Ratio& ratio : ratios) publications.insert(ratio.source->publication);
  const Ends ends = ends_of(ratios, percent / 100.0);
  ToldInterval interval;
  interval.figure = figure;
  interval.margin = {.low = ends.low,
                     .high = ends.high,
                     .runs = static_cast<int>(ratios.size()),
                     .sources = static_cast<int>(publications.size()),
                     // Rounded down: an interval never claims more than it held.
                     .held = std::floor(100 * least_held(coverages)) / 100};
  interval.coverages = coverages;
  return interval;
}

}  // namespace

std::string_view name_of(SourceKind kind) {
  switch (kind) {
    case SourceKind::framework:
      return "framework";
    case SourceKind::gpu:
      return "GPU";
    case SourceKind::year:
      break;
  }
  return "year";
}

std::string_view name_of(ToldFigure figure) {
  switch (figure) {
    case ToldFigure::step:
      return "step";
    case ToldFigure::reserved:
      return "reserved";
    case ToldFigure::device:
      break;
  }
  return "device";
}

double Coverage::held() const {
  return runs == 0 ? 0 : static_cast<double>(within) / static_cast<double>(runs);
}

std::vector<ToldInterval> told_intervals(const std::vector<ValidatedRun>& runs) {
  std::vector<ToldInterval> intervals;
  for (const ToldFigure figure : kToldFigures) {
    const std::vector<Ratio> ratios = ratios_of(runs, figure);
    if (!ratios.empty()) intervals.push_back(interval_of(ratios, figure));
  }
  return intervals;
}

SourceMargins source_margins_of(const std::vector<ToldInterval>& intervals,
                                const std::vector<RankedCell>& cells) {
  SourceMargins margins;
  margins.order = order_margin_of(cells);
  for (const ToldInterval& interval : intervals) {
    switch (interval.figure) {
      case ToldFigure::step:
        margins.step = interval.margin;
        break;
      case ToldFigure::reserved:
        margins.reserved = interval.margin;
        break;
      case ToldFigure::device:
        margins.device = interval.margin;
        break;
    }
  }
  return margins;
}

}  // namespace memest
