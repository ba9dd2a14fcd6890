// The operations of a step below the roof that a GPU's datasheet sets: bandwidth up to the ridge
// point, the peak of the compute type beyond it.
#pragma once

#include <string>

#include "memest/report/report.hpp"
#include "memest/spec/job.hpp"
#include "memest/time/recorded_time.hpp"
#include "memest/time/step_time.hpp"

namespace memest {

/// `job.training` and the bandwidth of its GPU are present, as they are where there is a time.
Report report_roofline(const Job& job, const TimeEstimate& time, const Question& question);

/// The operators of a recorded step, whose peak is known.
Report report_roofline(const GpuSpec& gpu, const RecordedTime& time, const Question& question);

/// As above, as drawings that need nothing beside them.
std::string roofline_svg(const Job& job, const TimeEstimate& time);
std::string roofline_svg(const GpuSpec& gpu, const RecordedTime& time);

}  // namespace memest
