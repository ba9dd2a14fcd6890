#include "gradient_scaler.hpp"

#include <utility>

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

/// scale.double().reciprocal().float(); found_inf; their copies for the device of the gradients.
void GradientScaler::unscale() {
  const StorageId in_double = make(size_of(DType::fp64));
  const StorageId reciprocal = make(size_of(DType::fp64));
  recorder_.release(in_double);
  const StorageId inverse = make(size_of(DType::fp32));
  recorder_.release(reciprocal);
  const StorageId none_found = make(size_of(DType::fp32));
  found_infinity_ = make(size_of(DType::fp32));
  const StorageId inverse_copy = make(size_of(DType::fp32));
  recorder_.release(inverse_copy);
  recorder_.release(inverse);
  recorder_.release(none_found);
}

/// sum() over the devices, of which there is one.
void GradientScaler::hand_on_infinity() { handed_on_ = make(size_of(DType::fp32)); }

void GradientScaler::update() {
  recorder_.release(std::exchange(handed_on_, kNoStorage));
  recorder_.release(found_infinity_);
  found_infinity_ = kNoStorage;
}

}  // namespace memest
