#include "memest/spec/gpu/sibling.hpp"

#include <algorithm>
#include <cmath>
#include <variant>

namespace memest {
namespace {

/// Between the watts for a FLOP/s of two siblings, at most. L4 has 1.63 times less than L40S of the
/// same architecture and reaches half of what others do (docs/calibration.md).
constexpr double kMostPowerRatio = 1.55;

/// Peak rate of 16-bit products; of fp32 where there are none.
double peak_of(const GpuSpec& gpu) {
  double peak = 0;
  for (const DType type : {DType::fp32, DType::fp16, DType::bf16}) {
    const auto fact = gpu.peak.find(type);
    if (fact != gpu.peak.end()) peak = std::max(peak, fact->second.value.value());
  }
  return peak;
}

double log_ratio(double left, double right) { return std::abs(std::log(left / right)); }

}  // namespace

std::optional<double> distance_between(const GpuSpec& gpu, const GpuSpec& other) {
  const bool known = !std::holds_alternative<std::monostate>(gpu.target);
  if (!known || gpu.target != other.target) return std::nullopt;
  const double peak = peak_of(gpu);
  const double other_peak = peak_of(other);
  if (peak == 0 || other_peak == 0 || !gpu.power || !other.power || !gpu.memory_bandwidth ||
      !other.memory_bandwidth) {
    return std::nullopt;
  }
  const double power =
      log_ratio(gpu.power->value.value() / peak, other.power->value.value() / other_peak);
  if (power > std::log(kMostPowerRatio)) return std::nullopt;
  return power + log_ratio(peak, other_peak) +
         log_ratio(gpu.memory_bandwidth->value.value(), other.memory_bandwidth->value.value());
}

Sibling sibling_of(const GpuSpec& gpu, const GpuSpec& measured) {
  Sibling sibling{.profile = measured.profile};
  if (gpu.link_bandwidth && measured.link_bandwidth) {
    sibling.link_ratio = gpu.link_bandwidth->value.value() / measured.link_bandwidth->value.value();
  }
  return sibling;
}

}  // namespace memest
