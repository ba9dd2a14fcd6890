#include "kernels/harness/clock_watch.hpp"

#include <algorithm>

namespace memest::kernels {
namespace {

double highest_clock(std::span<const TimedSample> all) {
  double highest = 0;
  for (const TimedSample& sample : all) highest = std::max(highest, sample.clock_mhz);
  return highest;
}

bool runs_under(const TimedSample& sample, double highest) {
  return sample.clock_mhz > 0 && sample.clock_mhz < kLeastClockShare * highest;
}

}  // namespace

bool is_throttled(const TimedSample& sample, std::span<const TimedSample> all) {
  return runs_under(sample, highest_clock(all));
}

std::vector<double> at_full_clock(std::span<const TimedSample> all) {
  const double highest = highest_clock(all);
  std::vector<double> seconds;
  for (const TimedSample& sample : all) {
    if (!runs_under(sample, highest)) seconds.push_back(sample.seconds);
  }
  return seconds;
}

double mean_clock_mhz(std::span<const TimedSample> all) {
  double sum = 0;
  int known = 0;
  for (const TimedSample& sample : all) {
    sum += sample.clock_mhz;
    known += sample.clock_mhz > 0 ? 1 : 0;
  }
  return known == 0 ? 0 : sum / known;
}

}  // namespace memest::kernels
