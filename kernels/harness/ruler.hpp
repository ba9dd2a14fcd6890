// The ruler: how a time is measured, whatever is timed.
#pragma once

#include <cstdint>

#include "kernels/harness/stopwatch.hpp"
#include "memest/kernels/backend.hpp"

namespace memest::kernels {

/// A sample is as many calls as last this long: events tell half a microsecond, clocks of hosts are
/// disturbed for longer.
inline constexpr Seconds kSampleLength{0.002};
/// Most calls in a sample; a graph of more nodes takes longer to make than to run.
inline constexpr std::int64_t kMostCalls = 2048;
/// In bursts, a device rests nine times as long as it worked, so that it stays cool...
inline constexpr double kRestShare = 9;
/// ... but never longer than this; by then clocks and power are back.
inline constexpr Seconds kLongestRest{0.2};

/// Times what the stopwatch runs. In bursts, rests before each sample and drops those of a
/// throttled clock; under sustained load, is busy for `sustained_for` first, never rests and keeps
/// every sample, because that clock is what is asked for.
Measurement measure(Stopwatch& stopwatch, const RulerSettings& settings);

}  // namespace memest::kernels
