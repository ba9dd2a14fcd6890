// The ladder of `memest fit` as a drawing.
#pragma once

#include "memest/plan/fit.hpp"
#include "memest/report/chart.hpp"

namespace memest {

/// Memory against the step's time, a mark a rung. Rungs whose time is not known are left out. The
/// ladder outlives the chart.
Chart ladder_chart(const FitLadder& ladder);

}  // namespace memest
