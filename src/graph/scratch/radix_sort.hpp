// Temporary storage of CUB 3.0's DeviceRadixSort::SortPairs and of its scans.
#pragma once

#include <cstdint>

#include "graph/scratch/scratch_sequence.hpp"

namespace memest {

/// CUB hands out one buffer, each part of it on such a boundary, with room to align the first.
inline constexpr std::int64_t kCubAlignment = 256;

constexpr std::int64_t cub_aligned(std::int64_t bytes) {
  return checked_multiply(blocks_of(bytes, kCubAlignment), kCubAlignment);
}

/// A scan, selection or unique-by-key: a state of so many bytes per tile and per lane of a warp
/// before the first.
inline std::int64_t scan_bytes(std::int64_t items, std::int64_t tile,
                               std::int64_t state_bytes = 16) {
  constexpr std::int64_t kLanes = 32;
  return cub_aligned((blocks_of(items, tile) + kLanes) * state_bytes) + kCubAlignment +
         kCubAlignment - 1;
}

/// Bytes to sort 64-bit keys, of which `bits` tell them apart, with 64-bit values; one sweep per
/// digit. Few pairs are sorted by one block, whose buffer is a byte.
std::int64_t radix_sort_bytes(std::int64_t pairs, std::int64_t bits, std::int64_t tile);

}  // namespace memest
