#include "memest/plan/layout_order.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "plan/accuracy/rounded_share.hpp"

namespace memest {
namespace {

/// Tokens a second and GPU.
struct Paces {
  double measured = 0;
  double predicted = 0;
};

double number_of(const std::variant<Int128, double>& figure) {
  return std::visit([](auto number) { return static_cast<double>(number); }, figure);
}

/// A run's paces, by its step where nobody published its tokens; none where neither was.
std::optional<Paces> paces_of(const ValidatedRun& run) {
  if (const Comparison* pace = run.worst(Metric::tokens_per_second_per_gpu)) {
    const double measured = number_of(pace->measured);
    return Paces{measured, measured * (1 + pace->error())};
  }
  const Comparison* step = run.worst(Metric::step_seconds);
  if (step == nullptr) return std::nullopt;
  const double measured = run.planned->tokens_per_gpu / number_of(step->measured);
  return Paces{measured, measured / (1 + step->error())};
}

/// The runs of one layout.
struct LayoutRuns {
  std::string id;  ///< of the first
  std::vector<double> measured;
  std::vector<double> predicted;  ///< alike but for what a layout leaves out, as its global batch
};

using CellKey = std::pair<RunCell, std::string>;  ///< with the framework
using CellRuns = std::map<RunLayout, LayoutRuns>;

std::map<CellKey, CellRuns> cells_of(const std::vector<ValidatedRun>& runs) {
  std::map<CellKey, CellRuns> cells;
  for (const ValidatedRun& run : runs) {
    if (!run.source || !run.planned) continue;
    const std::optional<Paces> paces = paces_of(run);
    if (!paces) continue;
    LayoutRuns& layout = cells[{run.planned->cell, run.source->framework}][run.planned->layout];
    if (layout.id.empty()) layout.id = run.id;
    layout.measured.push_back(paces->measured);
    layout.predicted.push_back(paces->predicted);
  }
  return cells;
}

RankedCell ranked(const CellKey& key, const CellRuns& layouts) {
  struct Median {
    const std::string* id;
    Paces paces;
  };
  std::vector<Median> medians;
  for (const auto& [layout, runs] : layouts) {
    medians.push_back({&runs.id, {quantile(runs.measured, 0.5), quantile(runs.predicted, 0.5)}});
  }
  const auto by = [&](double Paces::*pace) {
    return *std::ranges::max_element(medians, {},
                                     [pace](const Median& median) { return median.paces.*pace; });
  };
  const Median first = by(&Paces::predicted);
  const Median best = by(&Paces::measured);
  return {.framework = key.second,
          .cell = key.first,
          .layouts = static_cast<int>(layouts.size()),
          .first = *first.id,
          .best = *best.id,
          .lost = 1 - first.paces.measured / best.paces.measured};
}

}  // namespace

std::vector<RankedCell> ranked_cells(const std::vector<ValidatedRun>& runs) {
  std::vector<RankedCell> cells;
  for (const auto& [key, layouts] : cells_of(runs)) {
    if (layouts.size() >= kRankedLayouts) cells.push_back(ranked(key, layouts));
  }
  return cells;
}

OrderMargin order_margin_of(const std::vector<RankedCell>& cells) {
  OrderMargin margin;
  std::vector<double> lost;
  for (const RankedCell& cell : cells) {
    margin.layouts += cell.layouts;
    lost.push_back(cell.lost);
  }
  margin.cells = static_cast<int>(cells.size());
  if (cells.empty()) return margin;
  margin.median_lost = rounded_up(quantile(lost, 0.5));
  margin.most_lost = rounded_up(quantile(lost, 1));
  return margin;
}

}  // namespace memest
