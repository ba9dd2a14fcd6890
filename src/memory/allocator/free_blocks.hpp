// The free blocks of a pool in the order of (size, address): what best fit searches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memest/memory/device_memory.hpp"

namespace memest {

struct FreeBlock {
  std::int64_t size = 0;
  Address address = 0;
  std::uint32_t block = 0;  ///< its index in the allocator
};

/// Sorted lists by size: a bin for each of the sizes up to 32 times 512 B, behind them sixteen bins
/// a power of two. Which of them hold anything is a bit each. A list is cut into runs, so that an
/// insertion moves at most kLongestRun entries; few bins have more free blocks than one run holds.
class FreeBlocks {
 public:
  /// A place in the order; the next change ends its validity.
  struct Place {
    std::size_t bin = 0;
    std::size_t run = 0;
    std::size_t index = 0;
  };

  void insert(const FreeBlock& entry);
  /// Removes the entry of that size and address, which is there.
  void erase(std::int64_t size, Address address);
  /// The first block of at least `size`, the lowest address among equals.
  [[nodiscard]] Place first_of_at_least(std::int64_t size) const;
  /// Null past the last.
  [[nodiscard]] const FreeBlock* at(Place place) const;
  [[nodiscard]] Place next(Place place) const;
  /// The last in the order, null where there is none.
  [[nodiscard]] const FreeBlock* largest() const;
  /// Appends the indices of all blocks, in the order.
  void append_to(std::vector<std::uint32_t>& blocks) const;

 private:
  static constexpr std::size_t kLongestRun = 32;
  static constexpr std::size_t kBitsOfWord = 64;
  static constexpr std::size_t kWords = 14;
  using Run = std::vector<FreeBlock>;
  using Bin = std::vector<Run>;  // only a single one may be empty

  static std::size_t bin_of(std::int64_t size);
  [[nodiscard]] bool holds_any(std::size_t bin) const {
    return (held_[bin / kBitsOfWord] >> bin % kBitsOfWord & 1U) != 0;
  }
  /// In the bin, its end where all entries stand before (size, address).
  [[nodiscard]] Place lower_bound(std::size_t bin, std::int64_t size, Address address) const;
  /// The first entry of the first bin from `bin` on that has any, or the end.
  [[nodiscard]] Place first_from(std::size_t bin) const;

  std::vector<Bin> bins_;  // up to the last that ever held anything
  std::array<std::uint64_t, kWords> held_{};
};

}  // namespace memest
