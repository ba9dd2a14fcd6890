// Temporary storage of CUB 3.0's DeviceRadixSort::SortPairs.
#pragma once

#include <cstdint>

#include "graph/scratch/scratch_sequence.hpp"

namespace memest {

/// CUB hands out one buffer, each part of it on such a boundary, with room to align the first.
inline constexpr std::int64_t kCubAlignment = 256;

constexpr std::int64_t cub_aligned(std::int64_t bytes) {
  return checked_multiply(blocks_of(bytes, kCubAlignment), kCubAlignment);
}

/// Bytes to sort 64-bit keys, of which `bits` tell them apart, with 64-bit values; one sweep per
/// digit. Few pairs are sorted by one block, whose buffer is a byte.
std::int64_t radix_sort_bytes(std::int64_t pairs, std::int64_t bits, std::int64_t tile);

}  // namespace memest
