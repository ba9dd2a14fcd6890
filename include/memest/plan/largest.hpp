// Inverse questions: how large a batch, a sequence or a model fits, in any layout of the search.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "memest/plan/objective.hpp"
#include "memest/plan/search.hpp"

namespace memest {

/// The largest that fits one GPU type and count, as `estimate` answers for it.
struct Largest {
  std::size_t gpu = 0;  ///< index into PlanRequest::gpus
  std::int64_t gpus = 1;
  std::int64_t value = 0;  ///< 0: not even the least fits
  /// How it fits; of the last that was tried where none does.
  std::variant<PlanVerdict, Unavailable> plan = Unavailable{};
  std::int64_t parameters = 0;  ///< of the model that fits
};

/// One answer for each GPU type and count, those of the request's order. The next larger value (a
/// sequence of 1,024 more tokens) has no plan. Throws OverflowError.
std::vector<Largest> find_largest(const PlanRequest& request, Growth growth);

}  // namespace memest
