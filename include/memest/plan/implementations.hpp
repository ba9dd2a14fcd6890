// A search over several implementations: which of them trains the job best, on which GPUs.
#pragma once

#include <cstddef>
#include <variant>
#include <vector>

#include "memest/plan/search.hpp"
#include "memest/spec/implementation_choice.hpp"

namespace memest {

/// The best of one implementation on the GPUs of the first row.
struct ComparedChoice {
  std::size_t choice = 0;
  std::variant<PlanVerdict, Unavailable> plan = Unavailable{};
};

struct ComparedPlans {
  /// Every row is that of the first implementation that answers, or where it is better or lacks
  /// less that of the one which is best on the first row's GPUs; PlanVerdict::choice says which.
  PlanAnswer answer;
  std::vector<ComparedChoice> compared;  ///< in the order of the choices; empty where one alone is
};

/// The first choice that answers is searched on all GPUs; the others on those of the first row; the
/// best of these on all rows that `request` asks to be replayed (without finalists on all), and
/// where that changes the first row, the others there. `request.job` is not used. Throws
/// OverflowError.
ComparedPlans compare_implementations(const PlanRequest& request,
                                      const std::vector<ImplementationChoice>& choices);

}  // namespace memest
