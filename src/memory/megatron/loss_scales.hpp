// The scales with which the backwards of losses beside the main one begin (forward_step_calc_loss
// of schedules.py), which the process keeps.
#pragma once

#include "memest/spec/model.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class LossScales {
 public:
  LossScales(const DecoderSpec& decoder, Recorder& recorder);

  /// Sets them behind the forward of a stage.
  void set();

 private:
  HeldStorage scalar();
  HeldStorage main_scale();
  HeldStorage set_balance_scale();

  Recorder& recorder_;
  bool routes_;
  bool predicts_;
  HeldStorage of_balance_;      // MoEAuxLossAutoScaler.main_loss_backward_scale
  HeldStorage of_predictions_;  // MTPLossAutoScaler's
};

}  // namespace memest
