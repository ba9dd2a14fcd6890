// Reports of litgpt's fit() that stay on the device: counts of tokens, and the mean of the
// losses of a step's micro-steps (torchmetrics/wrappers/running.py and aggregation.py,
// RunningMean).
#pragma once

#include <cstdint>

#include "memest/spec/training.hpp"
#include "memory/timeline/held_storage.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class RunningMean {
 public:
  /// Makes the states and the counts. `recorder` outlives this.
  RunningMean(const TrainingSpec& training, Recorder& recorder);

  /// A micro-step's report, whose number of tokens has a name until the next one's.
  void report();

 private:
  Recorder& recorder_;
  HeldStorage tokens_;
};

}  // namespace memest
