#include "memest/spec/parallel/overlapped_actions.hpp"

namespace memest {

bool overlaps_backward(Schedule schedule, const std::vector<PipelineAction>& actions,
                       std::size_t at) {
  // ScheduleDualPipeV (torch/distributed/pipelining/schedules.py): OVERLAP_F_B, one action of a
  // forward and a whole backward of the rank's other stage.
  if (schedule != Schedule::dual_pipe_v || at + 1 >= actions.size()) return false;
  const PipelineAction& behind = actions[at + 1];
  return actions[at].forward && !behind.forward && behind.part == BackwardPart::whole &&
         behind.chunk != actions[at].chunk;
}

}  // namespace memest
