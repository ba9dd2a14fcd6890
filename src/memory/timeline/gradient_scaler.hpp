// torch.amp.GradScaler, PyTorch 2.11: a few scalars on the device.
#pragma once

#include "recorder.hpp"

namespace memest {

class GradientScaler {
 public:
  explicit GradientScaler(Recorder& recorder) : recorder_(recorder) {}

  /// scaler.scale(loss): the scaled loss, held by the caller.
  StorageId scale(std::int64_t loss_bytes);
  /// scaler.unscale_(optimizer): whether an infinity was found is kept until update().
  void unscale();
  /// scaler.step(optimizer), for an optimizer whose step asks it itself; kept until update().
  void hand_on_infinity();
  void update();

 private:
  StorageId make(std::int64_t bytes);

  Recorder& recorder_;
  StorageId found_infinity_ = kNoStorage;
  StorageId handed_on_ = kNoStorage;
  bool has_scale_ = false;
};

}  // namespace memest
