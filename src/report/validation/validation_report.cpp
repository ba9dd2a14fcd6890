#include "memest/report/validation_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/validation/error_text.hpp"
#include "report/validation/published_runs.hpp"
#include "report/validation/validation_chart.hpp"
#include "report/validation/validation_json.hpp"

namespace memest {
namespace {

constexpr std::size_t kShownWorst = 12;
constexpr std::size_t kShownIds = 6;
constexpr std::size_t kBarColumns = 40;

// Edges of the histogram's bars, as shares of the measured value.
constexpr std::array kEdges = {0.0001, 0.001, 0.002, 0.005, 0.01, 0.03, 0.1, 0.3};

std::string figure_text(Metric metric, Int128 whole) {
  return metric == Metric::outcome ? std::string(name_of(static_cast<RunOutcome>(whole)))
                                   : grouped(whole);
}
std::string figure_text(Metric, double number) { return significant_text(number, 4); }
std::string figure_text(Metric, std::monostate) { return "–"; }

template <class Variant>
std::string figure_text(Metric metric, const Variant& figure) {
  return std::visit([metric](auto number) { return figure_text(metric, number); }, figure);
}

Table distances_of(const std::vector<MetricSummary>& summaries) {
  Table table{{{"how far off"},
               {"n", Align::right},
               {"median", Align::right},
               {"p90", Align::right},
               {"worst", Align::right},
               {"run"}},
              {}};
  std::string group;
  for (const MetricSummary& row : summaries) {
    if (is_exact(row.metric) || row.compared == 0) continue;
    if (row.group != group) table.rows.push_back({{row.group}, "", Tone::strong});
    group = row.group;
    table.rows.push_back(
        {{"  " + std::string(name_of(row.metric)), std::to_string(row.compared),
          distance_text(row.median), distance_text(row.p90), distance_text(row.maximum), row.worst},
         "",
         Tone::plain});
  }
  return table;
}

/// Counts and outcomes over all groups: a row a metric.
Table equalities_of(const std::vector<MetricSummary>& summaries) {
  std::map<Metric, MetricSummary> totals;
  for (const MetricSummary& row : summaries) {
    MetricSummary& total = totals[row.metric];
    total.compared += row.compared;
    total.equal += row.equal;
  }
  Table table{{{"equal to the record"}, {"runs", Align::right}, {"of", Align::right}}, {}};
  for (const auto& [metric, total] : totals) {
    if (!is_exact(metric) || total.compared == 0) continue;
    const bool all = total.equal == total.compared;
    table.rows.push_back({{std::string(name_of(metric)), std::to_string(total.equal),
                           std::to_string(total.compared)},
                          all ? "✓" : "✗",
                          all ? Tone::plain : Tone::uncertain});
  }
  return table;
}

struct FarOff {
  const ValidatedRun* run;
  const Comparison* comparison;
  double distance;
};

/// The comparison of each run and metric that is farthest off, farthest first; of the kind asked
/// for, none that is equal. Times depend on the GPU's rates and would hide the rest.
std::vector<FarOff> worst_of(const std::vector<ValidatedRun>& runs, bool exact) {
  std::vector<FarOff> rows;
  for (const ValidatedRun& run : runs) {
    for (const Metric metric : all_metrics()) {
      const Comparison* worst = is_exact(metric) == exact ? run.worst(metric) : nullptr;
      if (worst != nullptr && !worst->equal()) {
        rows.push_back({&run, worst, std::abs(worst->error())});
      }
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const FarOff& left, const FarOff& right) {
    return left.distance > right.distance;
  });
  return rows;
}

void append_worst(Page& page, const std::vector<FarOff>& rows, const std::string& heading) {
  if (rows.empty()) return;
  Table table{{{"run"},
               {"figure"},
               {"measured", Align::right},
               {"predicted", Align::right},
               {"error", Align::right},
               {"what"}},
              {}};
  for (std::size_t i = 0; i < std::min(rows.size(), kShownWorst); ++i) {
    const auto& [run, comparison, distance] = rows[i];
    const RunTraits& traits = run->traits;
    std::string figure(name_of(comparison->metric));
    if (!comparison->part.empty()) figure += ", " + comparison->part;
    table.rows.push_back(
        {{run->id, figure, figure_text(comparison->metric, comparison->measured),
          figure_text(comparison->metric, comparison->predicted), error_text(comparison->error()),
          fmt::format("{}, {}, {}, recompute {}", traits.model, traits.precision, traits.attention,
                      traits.recompute)},
         "",
         Tone::plain});
  }
  page.parts.emplace_back(
      Heading{fmt::format("{}, {} of {}", heading, table.rows.size(), rows.size())});
  page.parts.emplace_back(std::move(table));
}

void append_refused(Page& page, const std::vector<ValidatedRun>& runs) {
  std::map<std::string, std::vector<std::string>> ids;
  for (const ValidatedRun& run : runs) {
    if (!run.refusal.empty()) ids[run.refusal].push_back(run.id);
  }
  if (ids.empty()) return;
  Table table{{{"records", Align::right}, {"why not"}, {"which"}}, {}};
  std::size_t refused = 0;
  for (const auto& [sentence, names] : ids) {
    std::string listed;
    for (std::size_t i = 0; i < std::min(names.size(), kShownIds); ++i) {
      listed += (i == 0 ? "" : ", ") + names[i];
    }
    if (names.size() > kShownIds) listed += ", ...";
    table.rows.push_back({{std::to_string(names.size()), sentence, listed}, "", Tone::plain});
    refused += names.size();
  }
  page.parts.emplace_back(Heading{fmt::format("Refused: {} of {} records", refused, runs.size())});
  page.parts.emplace_back(std::move(table));
}

void append_not_predicted(Page& page, const std::vector<MetricSummary>& summaries) {
  std::map<Metric, std::int64_t> counts;
  for (const MetricSummary& row : summaries) counts[row.metric] += row.not_predicted;
  std::string text;
  for (const auto& [metric, count] : counts) {
    if (count == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "Measured and not predicted: " : ", ", count,
                        name_of(metric));
  }
  if (!text.empty()) page.parts.emplace_back(Paragraph{text + ".", Tone::faint});
}

/// How many errors lie between two edges, as bars: too low above, too high below.
void append_histogram(Page& page, const std::vector<ValidatedRun>& runs, Metric metric) {
  const auto bar_of = [](double error) {
    const auto beyond = static_cast<int>(
        std::upper_bound(kEdges.begin(), kEdges.end(), std::abs(error)) - kEdges.begin());
    // An error below the first edge is bar 0, whatever its sign; bar n begins at edge n - 1.
    return error < 0 ? -beyond : beyond;
  };
  std::map<int, std::size_t> bars;
  std::size_t most = 0;
  for (const ValidatedRun& run : runs) {
    if (const Comparison* worst = run.worst(metric)) {
      most = std::max(most, ++bars[bar_of(worst->error())]);
    }
  }
  if (bars.empty()) return;
  const auto edge_text = [](int bar) {
    const auto index = static_cast<std::size_t>(std::abs(bar)) - 1;
    return (bar < 0 ? "-" : "+") + significant_text(100 * kEdges[index], 1) + " %";
  };
  Table table{{{"error"}, {"runs", Align::right}, {""}}, {}};
  for (int bar = bars.begin()->first; bar <= bars.rbegin()->first; ++bar) {
    const std::size_t count = bars[bar];
    // Where there is a run there is a bar, however long the longest.
    const std::size_t columns = count == 0 ? 0 : 1 + (kBarColumns - 1) * count / most;
    std::string line;
    for (std::size_t i = 0; i < columns; ++i) line += "█";
    const std::string range =
        bar == 0 ? fmt::format("within {} %", significant_text(100 * kEdges.front(), 1))
                 : edge_text(bar) + " and beyond";
    table.rows.push_back({{range, std::to_string(count), line}, "", Tone::plain});
  }
  page.parts.emplace_back(Heading{fmt::format("Errors of {}", name_of(metric))});
  page.parts.emplace_back(std::move(table));
}

Paragraph verdict_of(const ValidationAnswer& answer) {
  if (!answer.held) return {"No lines were given to hold them to: --lines FILE.", Tone::faint};
  if (answer.broken.empty()) return {"Every line holds.", Tone::good};
  return {fmt::format("Lines broken: {}.", answer.broken.size()), Tone::bad};
}

Page page_of(const ValidationAnswer& answer) {
  Page page;
  const auto refused = std::count_if(answer.runs.begin(), answer.runs.end(),
                                     [](const ValidatedRun& run) { return !run.refusal.empty(); });
  page.parts.emplace_back(
      Heading{fmt::format("{} records, {} of them predicted", answer.runs.size(),
                          answer.runs.size() - static_cast<std::size_t>(refused))});
  page.parts.emplace_back(errors_chart(answer.runs));
  const std::vector<MetricSummary> summaries = summarize(answer.runs);
  for (Table table : {distances_of(summaries), equalities_of(summaries)}) {
    if (!table.rows.empty()) page.parts.emplace_back(std::move(table));
  }
  append_not_predicted(page, summaries);
  append_worst(page, worst_of(answer.runs, false), "Farthest off");
  append_worst(page, worst_of(answer.runs, true), "Not equal");
  append_refused(page, answer.runs);
  append_published(page, answer);
  for (const Metric metric : {Metric::allocated_peak_bytes, Metric::reserved_peak_bytes}) {
    append_histogram(page, answer.runs, metric);
  }
  page.parts.emplace_back(verdict_of(answer));
  return page;
}

std::string raw_text(Int128 number) { return to_string(number); }
std::string raw_text(double number) { return exact_text(number); }
std::string raw_text(std::monostate) { return ""; }

template <class Variant>
std::string raw_text(const Variant& figure) {
  return std::visit([](auto number) { return raw_text(number); }, figure);
}

Table records_of(const ValidationAnswer& answer) {
  Table table;
  for (const char* title :
       {"id", "group", "model", "precision", "attention", "recompute", "metric", "part", "in_full",
        "measured", "predicted", "error", "equal", "refusal"}) {
    table.columns.push_back({title});
  }
  for (const ValidatedRun& run : answer.runs) {
    const RunTraits& traits = run.traits;
    const std::vector<std::string> head = {run.id,           run.group,        traits.model,
                                           traits.precision, traits.attention, traits.recompute};
    const auto add = [&](const Comparison& comparison, bool in_full) {
      const bool predicted = comparison.is_predicted();
      std::vector<std::string> cells = head;
      cells.emplace_back(name_of(comparison.metric));
      cells.push_back(comparison.part);
      cells.emplace_back(in_full ? "true" : "false");
      cells.push_back(raw_text(comparison.measured));
      cells.push_back(raw_text(comparison.predicted));
      cells.push_back(predicted ? exact_text(comparison.error()) : "");
      cells.emplace_back(predicted ? (comparison.equal() ? "true" : "false") : "");
      cells.push_back(run.refusal);
      table.rows.push_back({std::move(cells), "", Tone::plain});
    };
    for (const Comparison& comparison : run.comparisons) add(comparison, true);
    for (const Comparison& comparison : run.approximate) add(comparison, false);
  }
  return table;
}

std::vector<Headline> headlines_of(const ValidationAnswer& answer) {
  std::vector<Headline> lines;
  if (answer.held) {
    const bool holds = answer.broken.empty();
    lines.push_back({"Verdict",
                     holds ? std::string("Every line holds")
                           : fmt::format("{} lines broken", answer.broken.size()),
                     holds ? Tone::good : Tone::bad});
  } else {
    lines.push_back({"Verdict", "no lines were given", Tone::faint});
  }
  std::size_t known = 0;
  for (const ValidatedRun& run : answer.runs) known += run.refusal.empty() ? 1U : 0U;
  lines.push_back({"Records predicted", fmt::format("{} of {}", known, answer.runs.size())});
  return lines;
}

}  // namespace

Report report_validation(const ValidationAnswer& answer, const Question& question) {
  return {page_of(answer), records_of(answer),
          text_for(question, [&] { return validation_json(answer, question); }),
          headlines_of(answer)};
}

}  // namespace memest
