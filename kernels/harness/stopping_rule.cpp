#include "kernels/harness/stopping_rule.hpp"

#include <algorithm>
#include <cstddef>

#include "kernels/harness/statistics.hpp"

namespace memest::kernels {

Enough enough(std::span<const double> samples, Seconds spent, const RulerSettings& settings) {
  if (spent >= settings.longest) return Enough::too_long;
  const auto least = static_cast<std::size_t>(std::max<std::int64_t>(settings.least_samples, 1));
  if (samples.size() < least || spent < settings.shortest) return Enough::no;
  // Only behind the least count and time: a few equal samples say nothing of a slow drift.
  return estimate_median(samples).relative_error() <= settings.relative_error ? Enough::known
                                                                              : Enough::no;
}

}  // namespace memest::kernels
