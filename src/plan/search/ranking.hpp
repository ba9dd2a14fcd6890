// The order of plans.
#pragma once

#include "memest/plan/objective.hpp"
#include "memest/plan/search.hpp"

namespace memest {

/// Infinite without a price or a time.
double dollars_per_token(const PlanVerdict& plan);

/// Tokens a second over all GPUs; minus infinity without a time.
double tokens_per_second(const PlanVerdict& plan);

/// The number that the objective ranks by; less is better.
double measure_of(const PlanVerdict& plan, Objective objective);

/// Plans that fit stand before those too close to call; then the objective decides, then money,
/// then time.
bool ranks_before(const PlanVerdict& left, const PlanVerdict& right, Objective objective);

/// Whether `left` stands before: of two refused plans the one that lacks less memory does, then the
/// faster; a plan with no layout at all comes last.
bool lacks_less(const PlanVerdict& left, const PlanVerdict& right);

}  // namespace memest
