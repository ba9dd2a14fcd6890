// A browser's page of a plan shows these before its table.
#pragma once

#include <vector>

#include "memest/report/chart.hpp"
#include "memest/report/plan_report.hpp"
#include "memest/report/report.hpp"

namespace memest {

/// Money against pace: the first rows, and the plans that no other beats in everything. Plans
/// without a price or a time are left out. The answer outlives the chart.
Chart plans_chart(const PlanAnswer& answer);

/// Whether anything fits, and what the first row takes and costs.
std::vector<Headline> headlines_of(const PlanAnswer& answer);

}  // namespace memest
