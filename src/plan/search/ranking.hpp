// What plans are ranked by.
#pragma once

#include "memest/plan/objective.hpp"
#include "memest/plan/search.hpp"

namespace memest {

/// Infinite without a price or a time.
double dollars_per_token(const PlanVerdict& plan);

/// Of all GPUs; minus infinity without a time.
double tokens_per_second(const PlanVerdict& plan);

/// What the objective ranks by; less is better.
double measure_of(const PlanVerdict& plan, Objective objective);

/// What fits stands before what is too close to call; then the objective decides, then money, then
/// time.
bool ranks_before(const PlanVerdict& left, const PlanVerdict& right, Objective objective);

/// Of two that are refused the one that lacks less memory stands before, then the faster; what has
/// no layout at all comes last.
bool lacks_less(const PlanVerdict& left, const PlanVerdict& right);

}  // namespace memest
