// An estimate as a browser's page draws it: the ledger and the step, as areas.
#pragma once

#include "memest/plan/estimate.hpp"
#include "memest/report/chart.hpp"

namespace memest {

/// The terms alive at the peak, within their groups. The answer outlives the chart.
Chart ledger_chart(const MemoryAnswer& answer);

/// The operations of the step, within their classes. The estimate outlives the chart.
Chart step_chart(const TimeEstimate& time);

/// The colour of a class of operations.
Hue hue_of(OpClass op_class);

}  // namespace memest
