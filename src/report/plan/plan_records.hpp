// The rows of a plan for machines.
#pragma once

#include "memest/report/plan_report.hpp"

namespace memest {

/// All rows, best first, raw values.
Table records_of(const PlanRequest& request, const PlanAnswer& answer, const PlanView& view);

}  // namespace memest
