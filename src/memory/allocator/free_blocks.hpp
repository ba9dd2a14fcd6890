// The free blocks of a pool in the order of (size, address): what best fit searches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "memory/allocator/block.hpp"

namespace memest {

/// Lists by size, in order, linked through their blocks: one for each of the sizes up to 32 times
/// 512 B, behind them sixteen a power of two. Which of them hold anything is a bit each. Few hold
/// more than a handful; a long one is cut into runs, so that no search walks over more than
/// kLongestRun blocks. `blocks` are the allocator's.
class CachingAllocator::FreeBlocks {
 public:
  void insert(std::span<Block> blocks, Index block);
  /// Removes a block that is there.
  void erase(std::span<Block> blocks, Index block);
  /// The first block of at least `size`, the lowest address among equals; kNoBlock where there is
  /// none.
  [[nodiscard]] Index first_of_at_least(std::span<const Block> blocks, std::int64_t size) const;
  /// The next in the order, kNoBlock behind the last.
  [[nodiscard]] Index next(std::span<const Block> blocks, Index block) const;
  /// The last in the order, kNoBlock where there is none.
  [[nodiscard]] Index largest(std::span<const Block> blocks) const;
  /// Appends the indices of all blocks, in the order.
  void append_to(std::span<const Block> blocks, std::vector<Index>& all) const;

 private:
  static constexpr std::uint32_t kLongestRun = 32;
  static constexpr std::size_t kBitsOfWord = 64;
  static constexpr std::size_t kWords = 14;
  struct Run {
    Index first = kNoBlock;
    std::uint32_t length = 0;
  };
  using Runs = std::vector<Run>;
  struct Bin {
    Index first = kNoBlock;
    std::uint32_t length = 0;
    Runs runs;  ///< two or more, or none: all of it is one
  };

  static std::size_t bin_of(std::int64_t size);
  /// The run in which (size, address) stands or would stand.
  static Runs::iterator run_of(Bin& bin, std::span<const Block> blocks, const Block& block);
  static void split(Bin& bin, Runs::iterator run, std::span<const Block> blocks);
  /// The first block of the first bin from `bin` on that has any.
  [[nodiscard]] Index first_from(std::size_t bin) const;

  std::vector<Bin> bins_;  // up to the last that ever held anything
  std::array<std::uint64_t, kWords> held_{};
};

/// The idle blocks of one stream in one pool.
struct CachingAllocator::StreamPool {
  PoolKind kind = PoolKind::large;
  std::int32_t stream = 0;
  FreeBlocks free;
  std::vector<Index> unmapped;  ///< by address
};

inline DeviceRange CachingAllocator::range_of(const Block& block) {
  return {block.address, Bytes(block.size), block.pool->stream};
}

}  // namespace memest
