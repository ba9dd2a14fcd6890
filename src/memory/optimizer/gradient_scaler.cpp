#include "memory/optimizer/gradient_scaler.hpp"

#include "memest/spec/dtype.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
HeldStorage GradientScaler::make(std::int64_t bytes) {
  return recorder_.make(bytes, loop_label(Holding::temporaries, LoopTensor::scaler_state));
}

HeldStorage GradientScaler::scale(std::int64_t loss_bytes) {
  if (!has_scale_) {  // the scale and the growth tracker, fp32 and int32
    for (const DType type : {DType::fp32, DType::int32}) {
      recorder_.allocate(size_of(type),
                         loop_label(Holding::optimizer_states, LoopTensor::scaler_state));
    }
    has_scale_ = true;
  }
  return recorder_.make(loss_bytes, loop_label(Holding::temporaries, LoopTensor::scaled_loss));
}

/// scale.double().reciprocal().float()
void GradientScaler::unscale() {
  HeldStorage in_double = make(size_of(DType::fp64));
  HeldStorage reciprocal = make(size_of(DType::fp64));
  in_double.drop();
  const HeldStorage inverse = make(size_of(DType::fp32));
  reciprocal.drop();
  look_for_infinity();
}

/// found_inf, and its and the factor's copies for the device of the gradients.
void GradientScaler::look_for_infinity() {
  const HeldStorage none_found = make(size_of(DType::fp32));
  found_infinity_ = make(size_of(DType::fp32));
  recorder_.make_and_free(size_of(DType::fp32),
                          loop_label(Holding::temporaries, LoopTensor::scaler_state));
}

/// A fused step is given the sum over devices of what was found and, where nothing has unscaled
/// the gradients yet, the scale; infinities are then looked for with a factor of one.
void GradientScaler::begin_step(bool fused) {
  const bool unscaled = found_infinity_.is_of_storage();
  if (!fused) {
    if (!unscaled) unscale();
    return;
  }
  if (!unscaled) {
    const HeldStorage one = make(size_of(DType::fp32));
    look_for_infinity();
  }
  handed_.push_back(make(size_of(DType::fp32)));
  if (!unscaled) handed_.push_back(make(size_of(DType::fp32)));
}

void GradientScaler::end_step() { handed_.drop(); }

void GradientScaler::update() { found_infinity_.drop(); }

}  // namespace memest
