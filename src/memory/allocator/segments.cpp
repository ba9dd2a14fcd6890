// Where a block comes from: the pool, a new segment, or what others give back for it.
#include <algorithm>

#include "memory/allocator/free_blocks.hpp"

namespace memest {
namespace {

std::int64_t segment_size(std::int64_t size) {
  // get_allocation_size: 1 MiB takes a segment of 2 MiB, 1 MiB + 512 B one of 20 MiB, 10 MiB one of
  // 10 and 11.5 MiB one of 12.
  if (size <= kSmallSize) return kSmallBuffer;
  return size < kMinLargeAlloc ? kLargeBuffer : round_up(size, kRoundLarge);
}

}  // namespace

/// The smallest free block of the stream that is large enough, taken out of the pool.
CachingAllocator::Index CachingAllocator::best_fit(StreamPool& pool, std::int64_t size) {
  // get_free_block counts its calls for each pool (get_free_blocks_call_count), over all streams:
  // these calls are the clock of garbage collection.
  ++searches_[index_of(pool.kind)];
  Index found = pool.free.first_of_at_least(blocks_, size);
  if (found == kNoBlock) return kNoBlock;
  if (settings_.expandable_segments) {  // a block counts with the tail that it can grow into
    std::int64_t room = expandable_size(blocks_[found]);
    for (Index larger = found;;) {
      larger = pool.free.next(blocks_, larger);
      if (larger == kNoBlock || expandable_size(blocks_[larger]) >= room) break;
      found = larger;
      room = expandable_size(blocks_[found]);
    }
  }
  // With max_split_size, small requests leave oversize blocks alone, and an oversize request takes
  // no block that is 20 MiB (max_non_split_rounding_mb) or more larger than itself: it could not be
  // cut.
  const std::int64_t available = blocks_[found].size;
  if (size < max_split_size_ && available >= max_split_size_) return kNoBlock;
  if (size >= max_split_size_ && available >= size + kNonSplitRounding) return kNoBlock;
  take_out(found);
  return found;
}

/// A block from the device, in no list: at once, or after cached memory was given back to it.
CachingAllocator::Index CachingAllocator::obtain(StreamPool& pool, std::int64_t size) {
  // DeviceCachingAllocator::malloc, in its order: garbage_collect_cached_blocks, alloc_block, then
  // release_available_cached_blocks and release_cached_blocks, each with alloc_block behind it.
  if (limit_ && settings_.garbage_collection_threshold) collect_garbage();
  Index block = grow(pool, size);
  if (block == kNoBlock && release_oversize(pool, size)) block = grow(pool, size);
  if (block == kNoBlock) {
    ++statistics_.retries;
    release_cached();
    block = grow(pool, size);
  }
  return block;
}

CachingAllocator::Index CachingAllocator::grow(StreamPool& pool, std::int64_t size) {
  const std::int64_t segment = segment_size(size);
  // alloc_block compares with what cudaMalloc would get, also where pages are mapped: a
  // request of 12 MiB that is just within the limit goes on and maps 20.
  if (limit_ && statistics_.reserved.current + Bytes(segment) > *limit_) return kNoBlock;
  return settings_.expandable_segments ? map_more(pool, size) : new_segment(pool, segment);
}

CachingAllocator::Index CachingAllocator::new_segment(StreamPool& pool, std::int64_t size) {
  const std::optional<Address> address = device_.allocate(Bytes(size), pool.stream);
  if (!address) return kNoBlock;
  const Index index = new_block({});
  Block& block = blocks_[index];
  block.address = *address;
  block.size = size;
  block.pool = &pool;
  block.use = Use::free;
  ++statistics_.segments;
  change_reserved(size);
  return index;
}

/// The block is a whole free segment.
void CachingAllocator::release_segment(Index block) {
  take_out(block);
  Block& released = blocks_[block];
  device_.release(range_of(released));
  --statistics_.segments;
  change_reserved(-released.size);
  released.use = Use::unused;
  spare_blocks_.push_back(block);
}

/// Everything that can be given back is: whole free segments, or whole free pages of expandable
/// ones.
void CachingAllocator::release_cached() {
  // release_cached_blocks: the large pool before the small one (release_blocks for each).
  for (const auto& pools : pools_) {
    scratch_.clear();
    for (const auto& pool : pools) {
      if (kept_stream_ != pool->stream) pool->free.append_to(blocks_, scratch_);
    }
    for (const Index block : scratch_) {
      if (blocks_[block].space != kNoSpace) {
        unmap_pages(block);
      } else if (is_whole(blocks_[block])) {
        release_segment(block);
      }
    }
  }
}

/// With max_split_size, before everything is given back: the smallest cached segment that is large
/// enough, or else the largest ones until they are together. Blocks of that size are whole
/// segments, because they are never cut.
bool CachingAllocator::release_oversize(StreamPool& pool, std::int64_t size) {
  if (!settings_.max_split_size || settings_.expandable_segments) return false;
  // release_available_cached_blocks looks for oversize blocks alone, also where the request is
  // smaller.
  const std::int64_t wanted = std::max(size, max_split_size_);
  if (const Index enough = pool.free.first_of_at_least(blocks_, wanted); enough != kNoBlock) {
    release_segment(enough);
    return true;
  }
  std::int64_t released = 0;
  while (released < wanted) {
    const Index largest = pool.free.largest(blocks_);
    if (largest == kNoBlock || blocks_[largest].size < max_split_size_) return false;
    released += blocks_[largest].size;
    release_segment(largest);
  }
  return true;
}

/// Above the threshold: whole free segments of the large pool whose age (searches of the pool since
/// they became free) is at least the mean of those that are left, until enough is given back.
void CachingAllocator::collect_garbage() {
  // garbage_collect_cached_blocks: a threshold of 0.8 of 80 GiB collects above 64 GiB, before the
  // device is asked for more.
  const auto threshold =
      static_cast<std::int64_t>(*settings_.garbage_collection_threshold * limit_->as_double());
  std::int64_t excess = statistics_.reserved.current.value() - threshold;
  if (excess <= 0 || settings_.expandable_segments) return;
  const std::int64_t now = searches_[index_of(PoolKind::large)];
  const auto age = [&](Index block) { return now - blocks_[block].born; };
  scratch_.clear();
  for (const auto& pool : pools_[index_of(PoolKind::large)]) {
    pool->free.append_to(blocks_, scratch_);
  }
  std::erase_if(scratch_, [&](Index block) { return !is_whole(blocks_[block]); });
  std::int64_t ages = 0;
  for (const Index block : scratch_) ages += age(block);
  while (excess > 0 && !scratch_.empty()) {
    const auto count = static_cast<std::int64_t>(scratch_.size());
    const std::int64_t sum = ages;
    for (Index& block : scratch_) {
      // As upstream, a pass does not stop when enough is freed: all blocks of at least the mean age
      // go.
      if (age(block) * count < sum) continue;
      ages -= age(block);
      excess -= blocks_[block].size;
      release_segment(block);
      block = kNoBlock;
    }
    std::erase(scratch_, kNoBlock);
  }
}

}  // namespace memest
