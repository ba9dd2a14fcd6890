// The sums that torchtune's recipes keep from a micro-step to the next (recipes/
// full_finetune_single_device.py, train()): targets, and losses that are weighed by them.
#pragma once

#include <cstdint>
#include <optional>

#include "memest/spec/job.hpp"
#include "memory/timeline/held_storage.hpp"
#include "memory/timeline/labels.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class WeighedLoss {
 public:
  /// Makes the labels of nothing that stand behind each sequence's. `recorder` outlives this.
  WeighedLoss(const TrainingSpec& training, Recorder& recorder);

  /// The targets of the micro-batch that is on the device, and their sum so far.
  void count_targets();
  /// The labels behind a forward, where they have a name until the next batch is counted.
  [[nodiscard]] HeldVector& labels() { return shifted_labels_; }
  /// A micro-step's loss joins the sum of the step's.
  void add_loss();
  /// The gradients are divided by the step's targets, in place.
  void scale_gradients();
  /// The mean loss, tokens a second and `norm`, where there is one, take the place of the last
  /// report; both sums end.
  void report(const HeldStorage& norm);

 private:
  HeldStorage make(std::int64_t bytes, Holding holding, LoopTensor tensor);

  Recorder& recorder_;
  std::int64_t labels_ = 0;  ///< of a micro-batch
  bool scales_ = true;       // no gradient is there any more where the backward has stepped
  HeldStorage count_;        // of the running micro-batch
  HeldVector shifted_labels_;
  HeldStorage targets_;
  HeldStorage losses_;
  HeldVector reported_;
};

}  // namespace memest
