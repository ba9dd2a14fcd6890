#include "memory/optimizer/gradient_scaler.hpp"

#include "memest/spec/dtype.hpp"

namespace memest {
namespace {

Label label_of(Holding holding, LoopTensor tensor) {
  Label label;
  label.holding = holding;
  label.tensor = static_cast<std::uint16_t>(tensor);
  return label;
}

}  // namespace

StorageId GradientScaler::make(std::int64_t bytes) {
  return recorder_.allocate(bytes, label_of(Holding::temporaries, LoopTensor::scaler_state));
}

StorageId GradientScaler::scale(std::int64_t loss_bytes) {
  if (!has_scale_) {  // the scale and the growth tracker, fp32 and int32
    for (const DType type : {DType::fp32, DType::int32}) {
      recorder_.allocate(size_of(type),
                         label_of(Holding::optimizer_states, LoopTensor::scaler_state));
    }
    has_scale_ = true;
  }
  return recorder_.allocate(loss_bytes, label_of(Holding::temporaries, LoopTensor::scaled_loss));
}

/// scale.double().reciprocal().float()
void GradientScaler::unscale() {
  const StorageId in_double = make(size_of(DType::fp64));
  const StorageId reciprocal = make(size_of(DType::fp64));
  recorder_.release(in_double);
  const StorageId inverse = make(size_of(DType::fp32));
  recorder_.release(reciprocal);
  look_for_infinity();
  recorder_.release(inverse);
}

/// found_inf, and its and the factor's copies for the device of the gradients.
void GradientScaler::look_for_infinity() {
  const StorageId none_found = make(size_of(DType::fp32));
  found_infinity_ = make(size_of(DType::fp32));
  recorder_.release(make(size_of(DType::fp32)));
  recorder_.release(none_found);
}

/// A fused step is given the sum over devices of what was found and, where nothing has unscaled
/// the gradients yet, the scale; infinities are then looked for with a factor of one.
void GradientScaler::begin_step(bool fused) {
  const bool unscaled = found_infinity_ != kNoStorage;
  if (!fused) {
    if (!unscaled) unscale();
    return;
  }
  if (!unscaled) {
    const StorageId one = make(size_of(DType::fp32));
    look_for_infinity();
    recorder_.release(one);
  }
  handed_.push_back(make(size_of(DType::fp32)));
  if (!unscaled) handed_.push_back(make(size_of(DType::fp32)));
}

void GradientScaler::end_step() {
  for (const StorageId handed : handed_) recorder_.release(handed);
  handed_.clear();
}

void GradientScaler::update() {
  recorder_.release(found_infinity_);
  found_infinity_ = kNoStorage;
}

}  // namespace memest
