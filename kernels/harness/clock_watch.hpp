// Throttling, as the clock of the multiprocessors shows it.
#pragma once

#include <span>
#include <vector>

namespace memest::kernels {

struct TimedSample {
  double seconds = 0;    ///< a call
  double clock_mhz = 0;  ///< 0: not known
};

/// Under this share of the highest clock seen, a sample is one of a throttled device.
inline constexpr double kLeastClockShare = 0.9;

/// Whether the sample ran under that share. Never where its clock is not known.
bool is_throttled(const TimedSample& sample, std::span<const TimedSample> all);

/// Seconds of the samples that ran at full clock.
std::vector<double> at_full_clock(std::span<const TimedSample> all);

/// Over the samples whose clock is known; 0 where none is.
double mean_clock_mhz(std::span<const TimedSample> all);

}  // namespace memest::kernels
