// What stands between two steps: the optimizer's states and copies, clipping, the gradient scaler.
// Sequences are those of torch.optim and torch.nn.utils, PyTorch 2.11.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/memory/timeline.hpp"
#include "memest/spec/job.hpp"
#include "recorder.hpp"

namespace memest {

/// A trainable tensor, as the optimizer sees it.
struct SteppedTensor {
  std::uint32_t parameter = 0;  ///< index into Timeline::parameters
  std::int64_t elements = 0;
  const ParameterTensor* row = nullptr;
};

/// A parameter group, which a step takes on its own.
using ParameterGroup = std::vector<SteppedTensor>;

class OptimizerRun {
 public:
  OptimizerRun(const Job& job, std::vector<ParameterGroup> groups, Recorder& recorder);

  /// Master copies, and states that the constructor makes.
  void construct();
  /// Answers the norm, which the caller gives up.
  StorageId clip();
  /// States in the first step, then the step's temporaries.
  void step();
  /// What lasts from the step to zero_grad.
  void zero_grad();

 private:
  void make_states(const ParameterGroup& group);
  void widen_gradients();
  void step_lists(const ParameterGroup& group);
  void step_one_by_one(const ParameterGroup& group);
  StorageId temporary(const SteppedTensor& tensor);

  const TrainingSpec& training_;
  const ImplementationTransient& implementation_;
  std::vector<ParameterGroup> groups_;
  Recorder& recorder_;
  std::vector<StorageId> wide_gradients_;
  bool has_states_ = false;
};

}  // namespace memest
