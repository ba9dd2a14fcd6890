#include "memory/optimizer/float8_shares.hpp"

#include <utility>
#include <vector>

#include "memest/units/int128.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

HeldStorage Float8Shares::cast(std::size_t unit, std::int64_t elements, const Make& make) {
  scales_[unit].coming.push_back(scale(elements, make));
  return in_fp8(elements, make);
}

void Float8Shares::take_scales(std::size_t unit) {
  const auto scales = scales_.find(unit);
  if (scales != scales_.end()) scales->second.taken = std::move(scales->second.coming);
}

StorageId Float8Shares::scale_of(std::uint32_t use) const {
  const auto place = places_.find(use);
  if (place == places_.end()) return kNoStorage;
  return scales_.at(place->second.unit).taken[place->second.weight].id();
}

/// tensor_to_amax with reduce_amax: of the share, then of all ranks' (an all-reduce out of place).
HeldStorage Float8Shares::largest(std::int64_t elements, const Make& make) const {
  const std::int64_t size = size_of(type_);
  HeldStorage absolute = make(UnitTensor::cast_shares, checked_multiply(elements, size));
  const HeldStorage own = make(UnitTensor::cast_shares, size);
  if (device_) {
    Reduction maximum = sum_of_all(elements, size);
    maximum.accumulate_bytes = size;
    std::vector<HeldStorage> made;
    for (const ScratchStep& step : reduction_scratch(maximum, *device_)) {
      if (step.kind == ScratchStep::Kind::release) {
        made[static_cast<std::size_t>(step.block)].drop();
      } else {
        made.push_back(make(UnitTensor::cast_shares, step.bytes));
      }
    }
  }
  absolute.drop();
  return make(UnitTensor::cast_shares, size);
}

/// amax_to_scale, through fp64.
HeldStorage Float8Shares::scale(std::int64_t elements, const Make& make) const {
  constexpr std::int64_t kWide = size_of(DType::fp64);
  const HeldStorage maximum = largest(elements, make);
  const HeldStorage wide = make(UnitTensor::cast_shares, kWide);
  HeldStorage clamped = make(UnitTensor::cast_shares, kWide);
  HeldStorage inverse = make(UnitTensor::cast_shares, kWide);
  const HeldStorage quotient = make(UnitTensor::cast_shares, kWide);
  inverse.drop();
  clamped.drop();
  return make(UnitTensor::weight, size_of(DType::fp32));
}

/// _ToFloat8ConstrFunc: to fp32, times the scale, clamped, to fp8.
HeldStorage Float8Shares::in_fp8(std::int64_t elements, const Make& make) const {
  const std::int64_t wide_bytes = checked_multiply(elements, size_of(DType::fp32));
  HeldStorage wide;
  if (type_ != DType::fp32) wide = make(UnitTensor::cast_shares, wide_bytes);
  const HeldStorage scaled = make(UnitTensor::cast_shares, wide_bytes);
  wide.drop();
  const HeldStorage clamped = make(UnitTensor::cast_shares, wide_bytes);
  return make(UnitTensor::cast_shares, checked_multiply(elements, size_of(DType::fp8)));
}

}  // namespace memest
