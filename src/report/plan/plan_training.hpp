// A plan's whole training, for people: time and money.
#pragma once

#include <string>
#include <vector>

#include "memest/plan/search.hpp"

namespace memest {

inline constexpr double kSecondsOfDay = 86400;

/// Days, GPU-hours and dollars of the goal's tokens, each with its interval.
std::vector<std::string> training_cells(const PlanVerdict& verdict, const Goal& goal);

/// " 30 B tokens take 2.60 (2.0 to 4.0) days and 499 (390 to 770) GPU-hours, 2.74 (2.1 to 4.2) k
/// USD."
std::string training_text(const PlanVerdict& verdict, const Goal& goal);

}  // namespace memest
