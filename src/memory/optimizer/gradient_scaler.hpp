// torch.amp.GradScaler, PyTorch 2.11: a few scalars on the device.
#pragma once

#include "memory/timeline/recorder.hpp"

namespace memest {

class GradientScaler {
 public:
  explicit GradientScaler(Recorder& recorder) : recorder_(recorder) {}

  /// scaler.scale(loss): the scaled loss, held by the caller.
  [[nodiscard]] HeldStorage scale(std::int64_t loss_bytes);
  /// scaler.unscale_(optimizer): whether an infinity was found is kept until update().
  void unscale();
  /// scaler.step(optimizer), up to the optimizer's own step. A fused one unscales by itself.
  void begin_step(bool fused);
  void end_step();
  void update();

 private:
  [[nodiscard]] HeldStorage make(std::int64_t bytes);
  void look_for_infinity();

  Recorder& recorder_;
  HeldStorage found_infinity_;
  HeldVector handed_;  // to a fused step
  bool has_scale_ = false;
};

}  // namespace memest
