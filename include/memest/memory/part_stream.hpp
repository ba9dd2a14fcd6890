// The CUDA stream whose pool a storage comes from: pools do not lend to each other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace memest {

enum class Stream : std::uint8_t {
  compute,
  all_gather,
  reduce_scatter,
  cast_shards,  ///< FSDP1's before it gathers
  load,         ///< of a loader that copies batches beside the step
  capture,      ///< on which a CUDA graph is captured: what is made before its first kernel
  graph         ///< the pool of that graph, which is kept for its replays
};

/// A stream of one of a rank's model parts: each has streams of its own but to compute on.
class PartStream {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): most ranks have one part
  constexpr PartStream(Stream stream, std::size_t part = 0)
      : stream_(stream), part_(stream == Stream::compute ? 0 : static_cast<std::uint8_t>(part)) {}

  /// The allocator's number of it.
  [[nodiscard]] constexpr int number() const {
    constexpr int kOwn = 6;
    return static_cast<int>(stream_) + kOwn * part_;
  }

  friend constexpr bool operator==(const PartStream&, const PartStream&) = default;

 private:
  Stream stream_;
  std::uint8_t part_;
};

}  // namespace memest
