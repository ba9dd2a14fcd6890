#include "report/validation/published_runs.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "memest/plan/layout_order.hpp"
#include "memest/report/numbers.hpp"
#include "report/validation/error_text.hpp"

namespace memest {
namespace {

/// Runs that others published, by framework: how many of their figures have an answer, and how far
/// off those are that the specs say in full.
void append_summaries(Page& page, const std::vector<ValidatedRun>& runs) {
  const std::vector<PublishedSummary> summaries = summarize_published(runs);
  if (summaries.empty()) return;
  Table table{{{"published"},
               {"measured", Align::right},
               {"answered", Align::right},
               {"in full", Align::right},
               {"median error", Align::right},
               {"median distance", Align::right},
               {"p90", Align::right}},
              {}};
  const std::string* framework = nullptr;
  for (const PublishedSummary& row : summaries) {
    if (framework == nullptr || *framework != row.framework) {
      const std::string name = row.framework.empty() ? "every framework" : row.framework;
      table.rows.push_back({{name}, "", Tone::strong});
    }
    framework = &row.framework;
    const bool exact = is_exact(row.metric);
    const auto error = [&](const std::string& text) {
      return exact || row.in_full == 0 ? std::string("–") : text;
    };
    table.rows.push_back(
        {{"  " + std::string(name_of(row.metric)), std::to_string(row.measured),
          std::to_string(row.answered), std::to_string(row.in_full),
          exact ? fmt::format("{} equal", row.equal) : error(error_text(row.median_error)),
          error(distance_text(row.median)), error(distance_text(row.p90))},
         "",
         Tone::plain});
  }
  page.parts.emplace_back(Heading{"Published runs"});
  page.parts.emplace_back(std::move(table));
}

/// Adds what the layout that is predicted fastest loses in each cell of published runs.
void append_cells(Page& page, const std::vector<RankedCell>& cells) {
  if (cells.empty()) return;
  Table table{{{"one model, GPU and count"},
               {"layouts", Align::right},
               {"ranked first"},
               {"best"},
               {"lost", Align::right}},
              {}};
  for (const RankedCell& ranked : cells) {
    const RunCell& cell = ranked.cell;
    table.rows.push_back({{fmt::format("{}, {} {}, {}, {} × {}, {} tokens", ranked.framework,
                                       count_text(static_cast<double>(cell.parameters)), cell.model,
                                       cell.precision, cell.gpus, cell.gpu, cell.seq_len),
                           std::to_string(ranked.layouts), ranked.first, ranked.best,
                           ranked.lost == 0 ? "0" : percent_text(ranked.lost)},
                          "",
                          Tone::plain});
  }
  const OrderMargin lost = order_margin_of(cells);
  page.parts.emplace_back(Heading{"What the layout ranked first loses"});
  page.parts.emplace_back(std::move(table));
  page.parts.emplace_back(Paragraph{
      fmt::format("{} of the best measured pace in the median, {} at most, of {} {} with {} "
                  "layouts.",
                  percent_text(lost.median_lost), percent_text(lost.most_lost), lost.cells,
                  lost.cells == 1 ? "cell" : "cells", lost.layouts),
      Tone::faint});
}

/// The intervals that published runs make, and how many runs of left-out sources lie in them.
void append_intervals(Page& page, const std::vector<ToldInterval>& intervals) {
  if (intervals.empty()) return;
  Table table{{{"interval of"},
               {"ends"},
               {"left out, each in turn"},
               {"sources", Align::right},
               {"runs", Align::right},
               {"within", Align::right},
               {"held", Align::right}},
              {}};
  for (const ToldInterval& interval : intervals) {
    std::string figure(name_of(interval.figure));
    std::string ends = fmt::format("−{} / +{}", percent_text(interval.margin.low),
                                   percent_text(interval.margin.high));
    for (const Coverage& coverage : interval.coverages) {
      table.rows.push_back(
          {{std::exchange(figure, ""), std::exchange(ends, ""),
            "every " + std::string(name_of(coverage.kind)), std::to_string(coverage.sources),
            std::to_string(coverage.runs), std::to_string(coverage.within),
            coverage.runs == 0 ? "–" : percent_text(coverage.held())},
           "",
           Tone::plain});
    }
  }
  page.parts.emplace_back(Heading{"Intervals of published runs, held to the sources left out"});
  page.parts.emplace_back(std::move(table));
}

}  // namespace

void append_published(Page& page, const ValidationAnswer& answer) {
  append_summaries(page, answer.runs);
  append_cells(page, answer.cells);
  append_intervals(page, answer.intervals);
}

}  // namespace memest
