// The answer of `memest validate`: predictions held against recorded runs, by group, with the worst
// rows, what was refused, and where the errors lie.
#pragma once

#include <string>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/plan/residuals.hpp"
#include "memest/plan/validation.hpp"
#include "memest/report/report.hpp"

namespace memest {

struct ValidationAnswer {
  std::vector<ValidatedRun> runs;
  std::vector<RankedCell> cells;
  std::vector<ToldInterval> intervals;  ///< of the runs that others published
  bool held = false;                    ///< a file of lines was given
  Diagnostics broken;                   ///< what broke a line of it
};

Report report_validation(const ValidationAnswer& answer, const Question& question);

/// An SVG page of its own: predicted over measured bytes, a point a run, coloured by group.
std::string scatter_of(const std::vector<ValidatedRun>& runs);

}  // namespace memest
