#include "memest/calibrate/machine.hpp"

#include <algorithm>
#include <variant>

#include "memest/time/kernel_law.hpp"

namespace memest {
namespace {

/// One core with AVX2 and its part of two channels of memory: lower than most.
constexpr FlopsPerSecond kGuessedPeak{30e9};
constexpr BytesPerSecond kGuessedBandwidth{6e9};
/// Streams that move less stay in caches.
constexpr std::int64_t kLeastStream = 8 * kMiB;

}  // namespace

ProfiledMachine profiled_machine_of(const DeviceFacts& facts, const std::vector<Sample>& samples) {
  FlopsPerSecond peak{0};
  BytesPerSecond bandwidth{0};
  for (const Sample& sample : samples) {
    if (const auto* attention = std::get_if<AttentionShape>(&sample.shape)) {
      peak = std::max(peak, FlopsPerSecond(flops_of(*attention) / sample.seconds.value()));
    } else if (const auto* matmul = std::get_if<MatmulShape>(&sample.shape)) {
      peak = std::max(peak, FlopsPerSecond(flops_of(*matmul) / sample.seconds.value()));
    } else if (const auto* stream = std::get_if<StreamShape>(&sample.shape)) {
      if (stream->bytes < kLeastStream) continue;
      bandwidth = std::max(bandwidth, Bytes(stream->bytes) / sample.seconds);
    }
  }
  return {.multiprocessors = facts.multiprocessors,
          .memory = facts.memory,
          .l2_cache = facts.l2_cache,
          .bandwidth = bandwidth > BytesPerSecond(0) ? bandwidth : kGuessedBandwidth,
          .fp32_peak = peak > FlopsPerSecond(0) ? peak : kGuessedPeak};
}

}  // namespace memest
