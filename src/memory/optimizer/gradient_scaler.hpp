// torch.amp.GradScaler, PyTorch 2.11: a few scalars on the device.
#pragma once

#include <vector>

#include "memory/engine/recorder.hpp"

namespace memest {

class GradientScaler {
 public:
  explicit GradientScaler(Recorder& recorder) : recorder_(recorder) {}

  /// scaler.scale(loss): the scaled loss, held by the caller.
  StorageId scale(std::int64_t loss_bytes);
  /// scaler.unscale_(optimizer): whether an infinity was found is kept until update().
  void unscale();
  /// scaler.step(optimizer), up to the optimizer's own step. A fused one unscales by itself.
  void begin_step(bool fused);
  void end_step();
  void update();

 private:
  StorageId make(std::int64_t bytes);
  void look_for_infinity();

  Recorder& recorder_;
  StorageId found_infinity_ = kNoStorage;
  std::vector<StorageId> handed_;  // to a fused step
  bool has_scale_ = false;
};

}  // namespace memest
