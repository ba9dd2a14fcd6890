// The answer of `memest plan`: what fits, ranked, and for what does not, why.
#pragma once

#include <cstddef>
#include <vector>

#include "memest/plan/alternatives.hpp"
#include "memest/plan/implementations.hpp"
#include "memest/plan/search.hpp"
#include "memest/report/report.hpp"

namespace memest {

/// Rows of the page; the other formats hold all.
inline constexpr std::size_t kShownPlans = 12;
inline constexpr std::size_t kShownRefusals = 4;

/// Parts that the page shows beside the table.
struct PlanView {
  bool front = false;                              ///< the Pareto front
  std::vector<Alternative> alternatives = {};      ///< to the first row; empty: not shown
  std::vector<ImplementationChoice> choices = {};  ///< that were compared
  std::vector<ComparedChoice> compared = {};       ///< on the first row's GPUs; empty: one alone
  std::size_t winner = 0;                          ///< of the choices
};

Report report_plan(const PlanRequest& request, const PlanAnswer& answer, const Question& question,
                   const PlanView& view);

}  // namespace memest
