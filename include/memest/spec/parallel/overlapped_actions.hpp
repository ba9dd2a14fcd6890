// Which forwards of a schedule run at once with the backward behind them.
#pragma once

#include <cstddef>
#include <vector>

#include "memest/spec/parallel/pipeline_schedule.hpp"

namespace memest {

/// Whether `actions[at]`, of actions_of(), is the forward of a pair that ScheduleDualPipeV calls
/// OVERLAP_F_B: the one right before a whole backward. PyTorch leaves the first of the last rank
/// apart, which has neither end of the model. False for other schedules.
bool overlaps_backward(Schedule schedule, const std::vector<PipelineAction>& actions,
                       std::size_t at);

}  // namespace memest
