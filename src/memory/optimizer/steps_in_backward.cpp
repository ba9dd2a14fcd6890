#include "memory/optimizer/steps_in_backward.hpp"

namespace memest {

StepsInBackward::StepsInBackward(const Parts& parts, const ParameterGroup& stepped)
    : places_(parts.places), recorder_(parts.recorder) {
  optimizers_.resize(recorder_.timeline().parameters.size());
  for (const SteppedTensor& tensor : stepped) {
    const std::vector<ParameterGroup> alone = {{tensor}};
    optimizers_[tensor.parameter].emplace(parts.job, alone, parts.device, recorder_);
    optimizers_[tensor.parameter]->construct();
  }
}

bool StepsInBackward::take_gradient(std::uint32_t use, StorageId gradient) {
  std::optional<OptimizerRun>& optimizer = optimizers_[places_[use]];
  if (!optimizer) return false;
  optimizer->step();
  optimizer->zero_grad();
  recorder_.release(gradient);
  return true;
}

}  // namespace memest
