#include "memest/spec/parallel/overlapped_actions.hpp"

namespace memest {

bool overlaps_backward(Schedule schedule, const std::vector<PipelineAction>& actions,
                       std::size_t at) {
  if (schedule != Schedule::dual_pipe_v || at + 1 >= actions.size()) return false;
  const PipelineAction& behind = actions[at + 1];
  return actions[at].forward && !behind.forward && behind.part == BackwardPart::whole &&
         behind.chunk != actions[at].chunk;
}

}  // namespace memest
