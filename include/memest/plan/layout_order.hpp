// How well layouts are ranked: of published runs that share model, GPU and count, what the layout
// that is predicted fastest loses to the one that was.
#pragma once

#include <string>
#include <vector>

#include "memest/plan/validation.hpp"
#include "memest/spec/gpu/margin.hpp"

namespace memest {

/// A cell with layouts enough to rank. A layout that was run several times stands for the median of
/// its runs.
struct RankedCell {
  std::string framework;  ///< as the publication calls it
  RunCell cell;
  int layouts = 0;
  std::string first;  ///< id of a run of the layout that is predicted fastest
  std::string best;   ///< id of a run of the one that was
  double lost = 0;    ///< share of the best one's pace that the first one lacks
};

/// Fewer layouts than these are no choice.
inline constexpr int kRankedLayouts = 5;

/// Every cell of published runs with kRankedLayouts at least whose paces are measured, predicted
/// and said in full, in the order of RunCell.
std::vector<RankedCell> ranked_cells(const std::vector<ValidatedRun>& runs);

/// Returns what a plan's first layout may lose; without cells nothing is known.
OrderMargin order_margin_of(const std::vector<RankedCell>& cells);

}  // namespace memest
