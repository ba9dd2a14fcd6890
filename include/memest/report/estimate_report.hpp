// The answer of `memest estimate`: one configuration as written, its ledger, its peak, its FLOPs,
// its time and its price.
#pragma once

#include <vector>

#include "memest/plan/estimate.hpp"
#include "memest/report/report.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// The estimate outlives the report, whose charts draw from it.
Report report_estimate(const Job& job, const JobEstimate& estimate, const Question& question);

/// Verdict, peak, time and money: what heads the pages of a job.
std::vector<Headline> headlines_of(const JobEstimate& estimate);

}  // namespace memest
