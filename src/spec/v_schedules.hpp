// The order of V-shaped schedules: chunk 0 of a rank lies on the way through the ranks, chunk 1 on
// the way back.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/spec/parallel/pipeline_schedule.hpp"

namespace memest {

/// ScheduleZBVZeroBubble of PyTorch 2.11 (Qi et al. 2024, arXiv:2401.10241, section 6).
std::vector<PipelineAction> zbv_actions(const PipelinePlace& place, std::int64_t micro_batches);
/// ScheduleDualPipeV of PyTorch 2.11, after DeepSeek's DualPipe (arXiv:2412.19437). A forward and a
/// backward that overlap run one after the other.
std::vector<PipelineAction> dual_pipe_v_actions(const PipelinePlace& place,
                                                std::int64_t micro_batches);

}  // namespace memest
