// Why a plan and not its neighbours: every other value of one setting, with the best of the rest.
#pragma once

#include <string>
#include <vector>

#include "memest/plan/search.hpp"

namespace memest {

struct Alternative {
  std::string name;  ///< "tensor 4", "recompute none", "micro_batch 2"
  PlanVerdict verdict;
};

/// For `chosen`, an answer of search_plans(request), and each of its settings: the best candidate
/// with every other value of it and the chosen ones of the others (stages and data-parallel ranks
/// follow the split that is changed), or the nearest miss. Throws OverflowError.
std::vector<Alternative> alternatives_to(const PlanRequest& request, const PlanVerdict& chosen);

}  // namespace memest
