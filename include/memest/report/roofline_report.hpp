// The operations of a step below the roof that a GPU's datasheet sets: bandwidth up to the ridge
// point, the peak of the compute type beyond it.
#pragma once

#include <string>

#include "memest/report/report.hpp"
#include "memest/spec/job.hpp"
#include "memest/time/step_time.hpp"

namespace memest {

/// `job.training` and the bandwidth of its GPU are present, as they are where there is a time.
Report report_roofline(const Job& job, const TimeEstimate& time, const Question& question);

/// As above, as a drawing that needs nothing beside it.
std::string roofline_svg(const Job& job, const TimeEstimate& time);

}  // namespace memest
