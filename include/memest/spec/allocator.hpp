// The options of PyTorch's caching allocator that change what it reserves, by their own names in
// `PYTORCH_CUDA_ALLOC_CONF`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "memest/units/quantity.hpp"

namespace memest {

/// Divisions of the span between two powers of two, by the power of two below a size: entry i is
/// for sizes from 2^i MiB, the first also for all that are smaller, the last for all that are
/// larger. 0 and 1: sizes are rounded up to 512 B only.
inline constexpr std::size_t kRoundingClasses = 16;
using RoundingDivisions = std::array<std::int64_t, kRoundingClasses>;

struct AllocatorSettings {
  bool expandable_segments = false;
  std::optional<Bytes>
      max_split_size;  ///< blocks from this size on are never cut; absent: all may be
  RoundingDivisions roundup_power2_divisions{};
  /// Share of what may be reserved, within (0, 1), above which idle segments go back to the device.
  std::optional<double> garbage_collection_threshold;

  bool operator==(const AllocatorSettings&) const = default;
};

}  // namespace memest
