// The answer of `memest estimate`: one configuration as written, its ledger, its peak, its FLOPs,
// its time and its price.
#pragma once

#include "memest/plan/estimate.hpp"
#include "memest/report/report.hpp"
#include "memest/spec/job.hpp"

namespace memest {

Report report_estimate(const Job& job, const JobEstimate& estimate, const Question& question);

}  // namespace memest
