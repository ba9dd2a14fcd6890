// The answer of `memest plan`: what fits, ranked by price, and for what does not, why.
#pragma once

#include "memest/plan/search.hpp"
#include "memest/report/report.hpp"

namespace memest {

Report report_plan(const PlanRequest& request, const PlanAnswer& answer, const Question& question);

}  // namespace memest
