// `memest plan` of a recorded run: which GPU types it fits, at which size, and what that costs.
#pragma once

#include <vector>

#include "cli/command.hpp"
#include "memest/spec/recorded/recorded_job.hpp"

namespace memest {

/// The run on one GPU of each type, the best first. A family may leave one number open: each GPU
/// takes the value with which a unit of it takes least time, among the largest that fits and its
/// halves. Exit code 1 where nothing fits.
Outcome plan_recorded(const RecordedJob& job, const std::vector<GpuSpec>& gpus,
                      const Arguments& arguments, const Surroundings& surroundings);

}  // namespace memest
