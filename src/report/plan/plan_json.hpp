#pragma once

#include "memest/report/plan_report.hpp"
#include "report/pages/json.hpp"

namespace memest {

/// The whole answer of `memest plan`.
Json plan_json(const PlanRequest& request, const PlanAnswer& answer, const Question& question,
               const PlanView& view);

}  // namespace memest
