// Blocks and the sizes of PyTorch's constants, which the allocator's sources share.
#pragma once

#include <cstdint>
#include <limits>

#include "memest/memory/caching_allocator.hpp"

namespace memest {

// c10/cuda/CUDACachingAllocator.cpp
inline constexpr std::int64_t kMinBlockSize = 512;
inline constexpr std::int64_t kSmallSize = kMiB;           ///< up to here: the small pool
inline constexpr std::int64_t kSmallBuffer = 2 * kMiB;     ///< a segment of the small pool
inline constexpr std::int64_t kMinLargeAlloc = 10 * kMiB;  ///< below: a segment of kLargeBuffer
inline constexpr std::int64_t kLargeBuffer = 20 * kMiB;
inline constexpr std::int64_t kRoundLarge = 2 * kMiB;  ///< other segments are multiples of it
inline constexpr std::int64_t kNonSplitRounding = 20 * kMiB;  ///< max_non_split_rounding_mb
inline constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

inline constexpr std::uint32_t kNoBlock = static_cast<std::uint32_t>(BlockId::none);
inline constexpr std::uint32_t kNoSpace = kNoBlock;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
constexpr PoolKind pool_kind_of(std::int64_t rounded) {
  return rounded <= kSmallSize ? PoolKind::small : PoolKind::large;
}
/// Bytes that an expandable segment maps at once.
constexpr std::int64_t page_of(PoolKind kind) {
  return kind == PoolKind::small ? kSmallBuffer : kLargeBuffer;
}
constexpr std::size_t index_of(PoolKind kind) { return static_cast<std::size_t>(kind); }

enum class Use : std::uint8_t { unused, allocated, awaiting, free, unmapped };

/// A stretch of a segment. Neighbours are linked by address, and where it is free, those of its
/// list by (size, address).
struct CachingAllocator::Block {
  Address address = 0;
  std::int64_t size = 0;
  std::int64_t requested = 0;
  std::int64_t born = 0;  ///< the pool's clock when it became free
  Index previous = kNoBlock;
  Index next = kNoBlock;
  Index before = kNoBlock;  ///< in the list of free blocks
  Index after = kNoBlock;
  StreamPool* pool = nullptr;
  std::uint32_t space = kNoSpace;  ///< of an expandable segment
  Use use = Use::unused;

  [[nodiscard]] bool is_idle() const { return use == Use::free || use == Use::unmapped; }
  [[nodiscard]] Address end() const { return address + size; }
};

}  // namespace memest
