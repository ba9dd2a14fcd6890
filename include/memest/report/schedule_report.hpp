// The answer of `memest schedule`: schedules of a step's tensors, side by side.
#pragma once

#include <string>

#include "memest/plan/schedule.hpp"
#include "memest/report/report.hpp"

namespace memest {

Report report_schedules(const Job& job, const ScheduleAnswer& answer, const Question& question);

/// The fastest schedule within the budget, else the lowest, as a table: a row an action, with the
/// block, the operation and the tensor that it is of, and its bytes.
std::string actions_csv(const ScheduleAnswer& answer);

}  // namespace memest
