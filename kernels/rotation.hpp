// Copies of operands that calls take in turn, so that none finds its own in a cache.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/harness/ruler.hpp"
#include "memest/units/quantity.hpp"

namespace memest::kernels {

/// How many copies of `operands` bytes make a round of at least three times the cache, one more
/// than that so that the next round begins cold. No more than a sample has calls, nor than fit into
/// half of the free memory.
inline std::int64_t copies(Bytes operands, Bytes cache, Bytes free_memory) {
  const std::int64_t size = std::max<std::int64_t>(operands.value(), 1);
  const std::int64_t wanted = 1 + (3 * cache.value() + size - 1) / size;
  const std::int64_t most = std::min(free_memory.value() / 2 / size, kMostCalls);
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(most, 1));
}

}  // namespace memest::kernels
