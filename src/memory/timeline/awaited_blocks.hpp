// A captured step's demands on the allocator beside those of others: blocks that another stream
// awaits, and a pool that stays.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/memory/caching_allocator.hpp"
#include "memest/memory/timeline.hpp"

namespace memest {

class AwaitedBlocks {
 public:
  AwaitedBlocks(const Timeline& timeline, CachingAllocator& allocator)
      : timeline_(timeline), allocator_(allocator) {
    allocator.keep(PartStream(Stream::graph).number());
  }

  /// Event `event` comes next.
  void come_to(std::uint32_t event) {
    if (timeline_.joined_before != event) return;
    for (const BlockId block : waiting_) allocator_.free(block);
    waiting_.clear();
  }

  void free(StorageId storage, BlockId block) {
    if (!timeline_.storages[storage].awaited) return allocator_.free(block);
    allocator_.free_when_done(block);
    waiting_.push_back(block);
  }

 private:
  const Timeline& timeline_;
  CachingAllocator& allocator_;
  std::vector<BlockId> waiting_;
};

}  // namespace memest
