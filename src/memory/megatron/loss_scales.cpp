#include "memory/megatron/loss_scales.hpp"

#include <utility>

#include "memory/engine/loop_habits.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {

LossScales::LossScales(const DecoderSpec& decoder, Recorder& recorder)
    : recorder_(recorder),
      routes_(decoder.experts() != nullptr),
      predicts_(decoder.mtp_layers > 0) {}

void LossScales::set() {
  HeldStorage scale = set_balance_scale();
  if (!predicts_) return;
  scale = main_scale();
  // MTPLossAutoScaler.set_loss_scale: each takes the place of the last.
  of_predictions_ = scalar();
}

/// MoEAuxLossAutoScaler.set_loss_scale, whether routers have such a loss or none: the first scale
/// stays, later ones are copied into it.
HeldStorage LossScales::set_balance_scale() {
  if (!routes_) return {};
  HeldStorage scale = main_scale();
  HeldStorage of_ranks = scalar();
  HeldStorage of_steps = scalar();
  of_ranks.drop();
  if (!of_balance_.is_of_storage()) of_balance_ = std::move(of_steps);
  return scale;
}

/// config.grad_scale_func(torch.ones(1)).
HeldStorage LossScales::main_scale() {
  const HeldStorage ones = scalar();
  return scalar();
}

HeldStorage LossScales::scalar() {
  return recorder_.make(size_of(DType::fp32),
                        loop_label(Holding::temporaries, LoopTensor::scaled_loss));
}

}  // namespace memest
