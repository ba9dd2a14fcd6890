// The moments of a replayed step at which most is allocated.
#pragma once

#include <vector>

#include "memest/plan/estimate.hpp"
#include "memest/plan/step_memory.hpp"

namespace memest {

/// The highest moment of each kind (a phase with the block, the loop's or the unit's tensor made),
/// the peak first. `replay` is one of `step`'s timeline.
std::vector<HighMoment> high_moments(const StepMemory& step, const StepReplay& replay);

}  // namespace memest
