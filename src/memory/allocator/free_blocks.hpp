// The free blocks of a pool in the order of (size, address): what best fit searches.
#pragma once

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

/// A sorted list, cut into runs so that an insertion moves at most kLongestRun entries. Few pools
/// have more free blocks than one run holds; there it is a sorted vector.
class FreeBlocks {
 public:
  /// A place in the order; the next change ends its validity.
  struct Place {
    std::size_t run = 0;
    std::size_t index = 0;
  };

  FreeBlocks() : runs_(1) {}

  void insert(const FreeBlock& entry);
  /// Removes the entry of that size and address, which is there.
  void erase(std::int64_t size, Address address);
  /// The first block of at least `size`, the lowest address among equals.
  [[nodiscard]] Place first_of_at_least(std::int64_t size) const { return lower_bound(size, 0); }
  /// Null past the last.
  [[nodiscard]] const FreeBlock* at(Place place) const;
  [[nodiscard]] Place next(Place place) const;
  /// The last in the order, null where there is none.
  [[nodiscard]] const FreeBlock* largest() const;
  /// Appends the indices of all blocks, in the order.
  void append_to(std::vector<std::uint32_t>& blocks) const;

 private:
  static constexpr std::size_t kLongestRun = 32;
  using Run = std::vector<FreeBlock>;

  [[nodiscard]] std::size_t run_of(std::int64_t size, Address address) const;
  [[nodiscard]] Place lower_bound(std::int64_t size, Address address) const;

  std::vector<Run> runs_;  // at least one; only a single one may be empty
};

}  // namespace memest
