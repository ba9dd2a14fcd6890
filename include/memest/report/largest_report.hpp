// The answer of `memest plan --largest`: how large a batch, a sequence or a model fits.
#pragma once

#include <vector>

#include "memest/plan/largest.hpp"
#include "memest/report/report.hpp"

namespace memest {

Report report_largest(const PlanRequest& request, Growth growth,
                      const std::vector<Largest>& answers, const Question& question);

}  // namespace memest
