#include "kernels/harness/ruler.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/harness/clock_watch.hpp"
#include "kernels/harness/statistics.hpp"
#include "kernels/harness/stopping_rule.hpp"

namespace memest::kernels {
namespace {

/// How many calls last a sample. Its runs are the warm-up.
std::int64_t calls_in_sample(Stopwatch& stopwatch) {
  stopwatch.run(1);  // loads the kernel, fills caches of addresses
  std::int64_t calls = 1;
  while (true) {
    const Seconds time = stopwatch.run(calls);
    if (time >= kSampleLength || calls == kMostCalls) return calls;
    // In proportion to the last trial, and one more at least: first runs are slow, so the count may
    // have to grow again.
    const double wanted = static_cast<double>(calls) * (kSampleLength / time);
    calls = wanted < static_cast<double>(kMostCalls)
                ? std::max(calls + 1, static_cast<std::int64_t>(std::ceil(wanted)))
                : kMostCalls;
  }
}

Seconds rest_after(Seconds work) { return std::min(work * kRestShare, kLongestRest); }

/// Samples that count: all under sustained load, in bursts those of full clock.
std::vector<double> kept(const std::vector<TimedSample>& samples, Load load) {
  if (load == Load::burst) return at_full_clock(samples);
  std::vector<double> seconds;
  for (const TimedSample& sample : samples) seconds.push_back(sample.seconds);
  return seconds;
}

bool any_throttled(const std::vector<TimedSample>& samples) {
  return std::any_of(samples.begin(), samples.end(),
                     [&](const TimedSample& sample) { return is_throttled(sample, samples); });
}

}  // namespace

Measurement measure(Stopwatch& stopwatch, const RulerSettings& settings) {
  const std::int64_t calls = calls_in_sample(stopwatch);
  if (settings.load == Load::sustained) {
    Seconds busy{0};
    // Clocks and temperature settle before the first sample counts.
    while (busy < settings.sustained_for) busy += stopwatch.run(calls);
  }

  std::vector<TimedSample> samples;
  std::vector<double> seconds;
  Seconds spent{0};
  while (enough(seconds, spent, settings) == Enough::no) {
    if (settings.load == Load::burst && !samples.empty()) {
      stopwatch.rest(rest_after(Seconds(samples.back().seconds) * calls));
    }
    const Seconds time = stopwatch.run(calls);
    spent += time;
    samples.push_back(
        {.seconds = time.value() / static_cast<double>(calls), .clock_mhz = stopwatch.clock_mhz()});
    seconds = kept(samples, settings.load);
  }

  const MedianEstimate estimate = estimate_median(seconds);
  return {.median = Seconds(estimate.median),
          .low = Seconds(estimate.low),
          .high = Seconds(estimate.high),
          .samples = static_cast<std::int64_t>(seconds.size()),
          .clock_mhz = mean_clock_mhz(samples),
          .throttled = any_throttled(samples)};
}

}  // namespace memest::kernels
