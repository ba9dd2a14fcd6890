#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/plan/validation.hpp"
#include "memest/spec/gpu/margin.hpp"

namespace memest {
namespace {

/// "0.123 %".
std::string percent_text(double share) {
  std::array<char, 32> digits{};
  const auto end =
      std::to_chars(digits.begin(), digits.end(), 100 * share, std::chars_format::general, 3);
  return std::string(digits.begin(), end.ptr) + " %";
}

/// "'v007' (step2.forward_peak) is 1.2 % off in phases", "'v007' (layer 3) differs in saved_bytes".
std::string distance_text(const std::string& id, const Comparison& comparison) {
  std::string text = "'" + id + "'";
  if (!comparison.part.empty()) text += " (" + comparison.part + ")";
  if (is_exact(comparison.metric)) {
    return text + " differs in " + std::string(name_of(comparison.metric));
  }
  return text + " is " + percent_text(std::abs(comparison.error())) + " off in " +
         std::string(name_of(comparison.metric));
}

bool is_past(const AccuracyLine& line, const Comparison& comparison) {
  if (line.equal) return !comparison.equal();
  return line.maximum && std::abs(comparison.error()) > *line.maximum;
}

/// Holds runs to lines, and the list of known misses to the runs.
class LineCheck {
 public:
  LineCheck(const std::vector<ValidatedRun>& runs, const AccuracyLines& lines)
      : runs_(runs), lines_(lines), summaries_(summarize(runs)) {}

  [[nodiscard]] Diagnostics check() && {
    for (const AccuracyLine& line : lines_.lines) {
      check_rows(line);
      check_medians(line);
      check_count(line);
    }
    for (const KnownMiss& miss : lines_.misses) check_miss(miss);
    for (const KnownGroupMiss& miss : lines_.group_misses) check_miss(miss);
    for (const NotPredicted& entry : lines_.not_predicted) {
      if (not_predicted(entry.metric) > 0) continue;
      report(entry.span, "every measured " + std::string(name_of(entry.metric)) + " is predicted",
             "take it off the list");
    }
    return std::move(broken_);
  }

 private:
  void check_rows(const AccuracyLine& line) {
    for (const ValidatedRun& run : runs_) {
      const Comparison* worst = run.worst(line.metric);
      if (worst == nullptr || !is_past(line, *worst) || find_miss(run.id, line.metric) != nullptr) {
        continue;
      }
      report(line.span,
             distance_text(run.id, *worst) + "; the line is " +
                 (line.equal ? "equality" : percent_text(*line.maximum)),
             "'known_misses' takes the reason");
    }
  }

  void check_medians(const AccuracyLine& line) {
    for (const MetricSummary& summary : summaries_) {
      const bool past = summary.metric == line.metric && line.median && summary.compared > 0 &&
                        summary.median > *line.median;
      if (!past || find_group_miss(summary) != nullptr) continue;
      report(line.span, "the median of " + std::string(name_of(line.metric)) + " in '" +
                            summary.group + "' is " + percent_text(summary.median) +
                            "; the line is " + percent_text(*line.median));
    }
  }

  void check_count(const AccuracyLine& line) {
    std::int64_t compared = 0;
    for (const MetricSummary& summary : summaries_) {
      if (summary.metric == line.metric) compared += summary.compared;
    }
    const std::string name(name_of(line.metric));
    if (compared < line.least_rows) {
      report(line.span, std::to_string(compared) + " rows of " + name + " are compared; " +
                            std::to_string(line.least_rows) + " are asked for");
    }
    const std::int64_t missing = not_predicted(line.metric);
    const bool known =
        std::any_of(lines_.not_predicted.begin(), lines_.not_predicted.end(),
                    [&](const NotPredicted& entry) { return entry.metric == line.metric; });
    if (missing > 0 && !known) {
      report(line.span,
             std::to_string(missing) + " rows of " + name + " are measured and not predicted",
             "'not_predicted' takes the reason");
    }
  }

  void check_miss(const KnownMiss& miss) {
    const std::string name(name_of(miss.metric));
    const auto run = std::find_if(runs_.begin(), runs_.end(),
                                  [&](const ValidatedRun& row) { return row.id == miss.id; });
    if (run == runs_.end()) {
      return report(miss.span, "no record has the id '" + miss.id + "'");
    }
    const AccuracyLine* line = line_of(miss.metric);
    if (line == nullptr) return report(miss.span, "no line holds " + name);
    const Comparison* worst = run->worst(miss.metric);
    if (worst == nullptr) {
      return report(miss.span, "'" + miss.id + "' has no prediction of " + name + " to miss",
                    "take it off the list");
    }
    // The list may only shrink: what is mended must go, or it could come back unseen.
    if (!is_past(*line, *worst)) {
      return report(miss.span, "'" + miss.id + "' no longer misses " + name,
                    "take it off the list");
    }
    const double distance = std::abs(worst->error());
    if (miss.ceiling && distance > *miss.ceiling) {
      report(miss.span, "'" + miss.id + "' is " + percent_text(distance) + " off in " + name +
                            ", past its ceiling of " + percent_text(*miss.ceiling));
    }
  }

  void check_miss(const KnownGroupMiss& miss) {
    const std::string name(name_of(miss.metric));
    const auto summary =
        std::find_if(summaries_.begin(), summaries_.end(), [&](const MetricSummary& row) {
          return row.group == miss.group && row.metric == miss.metric && row.compared > 0;
        });
    if (summary == summaries_.end()) {
      return report(miss.span, "no group '" + miss.group + "' has rows of " + name);
    }
    const AccuracyLine* line = line_of(miss.metric);
    if (line == nullptr || !line->median) {
      return report(miss.span, "no line holds the median of " + name);
    }
    if (summary->median <= *line->median) {
      return report(miss.span, "the median of '" + miss.group + "' no longer misses " + name,
                    "take it off the list");
    }
    if (summary->median > miss.ceiling) {
      report(miss.span, "the median of '" + miss.group + "' is " + percent_text(summary->median) +
                            " off in " + name + ", past its ceiling of " +
                            percent_text(miss.ceiling));
    }
  }

  [[nodiscard]] const KnownMiss* find_miss(const std::string& id, Metric metric) const {
    const auto found =
        std::find_if(lines_.misses.begin(), lines_.misses.end(),
                     [&](const KnownMiss& miss) { return miss.id == id && miss.metric == metric; });
    return found == lines_.misses.end() ? nullptr : &*found;
  }

  [[nodiscard]] const KnownGroupMiss* find_group_miss(const MetricSummary& summary) const {
    const auto found = std::find_if(
        lines_.group_misses.begin(), lines_.group_misses.end(), [&](const KnownGroupMiss& miss) {
          return miss.group == summary.group && miss.metric == summary.metric;
        });
    return found == lines_.group_misses.end() ? nullptr : &*found;
  }

  [[nodiscard]] const AccuracyLine* line_of(Metric metric) const {
    const auto found =
        std::find_if(lines_.lines.begin(), lines_.lines.end(),
                     [&](const AccuracyLine& line) { return line.metric == metric; });
    return found == lines_.lines.end() ? nullptr : &*found;
  }

  [[nodiscard]] std::int64_t not_predicted(Metric metric) const {
    std::int64_t count = 0;
    for (const MetricSummary& summary : summaries_) {
      if (summary.metric == metric) count += summary.not_predicted;
    }
    return count;
  }

  void report(const SourceSpan& span, std::string message, std::string hint = {}) {
    broken_.push_back({Severity::error, span, std::move(message), std::move(hint)});
  }

  const std::vector<ValidatedRun>& runs_;
  const AccuracyLines& lines_;
  std::vector<MetricSummary> summaries_;
  Diagnostics broken_;
};

/// Distances of one group and metric while they are collected.
struct Collected {
  MetricSummary summary;
  std::vector<double> distances;

  void add(const ValidatedRun& run, const Comparison& comparison) {
    if (!comparison.is_predicted()) {
      // Records that are refused are counted by their reason, not again by every figure.
      if (run.refusal.empty()) ++summary.not_predicted;
      return;
    }
    const double distance = std::abs(comparison.error());
    ++summary.compared;
    summary.equal += comparison.equal() ? 1 : 0;
    if (distances.empty() || distance > summary.maximum) {
      summary.maximum = distance;
      summary.worst = run.id;
    }
    distances.push_back(distance);
  }
};

}  // namespace

std::vector<MetricSummary> summarize(const std::vector<ValidatedRun>& runs) {
  std::map<std::pair<std::string, Metric>, Collected> collected;
  for (const ValidatedRun& run : runs) {
    for (const Comparison& comparison : run.comparisons) {
      Collected& row = collected[{run.group, comparison.metric}];
      row.summary.group = run.group;
      row.summary.metric = comparison.metric;
      row.add(run, comparison);
    }
  }
  std::vector<MetricSummary> summaries;
  for (auto& [key, row] : collected) {
    if (!row.distances.empty()) {
      row.summary.median = quantile(row.distances, 0.5);
      row.summary.p90 = quantile(std::move(row.distances), 0.9);
    }
    if (row.summary.compared + row.summary.not_predicted > 0) {
      summaries.push_back(std::move(row.summary));
    }
  }
  return summaries;
}

Diagnostics hold_to_lines(const std::vector<ValidatedRun>& runs, const AccuracyLines& lines) {
  return LineCheck(runs, lines).check();
}

}  // namespace memest
