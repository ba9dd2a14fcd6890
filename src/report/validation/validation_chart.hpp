// Errors of predictions as a drawing.
#pragma once

#include <vector>

#include "memest/plan/validation.hpp"
#include "memest/report/chart.hpp"

namespace memest {

/// Predicted over measured, less one: a lane a group, a mark a run and figure. The runs outlive the
/// chart.
Chart errors_chart(const std::vector<ValidatedRun>& runs);

}  // namespace memest
