// Budgets as a drawing.
#pragma once

#include <vector>

#include "memest/report/chart.hpp"
#include "memest/report/check_report.hpp"

namespace memest {

/// Each budget's share of its limit, the fullest first. The files outlive the chart.
Chart budgets_chart(const std::vector<CheckedFile>& files);

}  // namespace memest
