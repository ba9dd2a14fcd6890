// Expandable segments: one range of addresses a stream and pool, behind which memory is mapped page
// by page as the pool grows, and unmapped where whole pages are free.
#include <algorithm>

#include "memest/diag/expect.hpp"
#include "memory/allocator/free_blocks.hpp"

namespace memest {

std::int64_t CachingAllocator::expandable_size(const Block& block) const {
  // get_free_block, expandable_size: a block of 4 MiB before 60 MiB of unmapped addresses ranks as
  // 64.
  if (block.next == kNoBlock || blocks_[block.next].use != Use::unmapped) return block.size;
  return block.size + blocks_[block.next].size;
}

/// A free block of at least `size`, in no list: the lowest room of the stream, with as many pages
/// mapped as are missing. Pages mapped before the device ran out stay mapped.
CachingAllocator::Index CachingAllocator::map_more(StreamPool& pool, std::int64_t size) {
  Index block = lowest_room(pool, size);
  if (block == kNoBlock) block = new_space(pool);
  // try_allocate_expandable_block: the candidate is an unmapped block, or a free one with an
  // unmapped one behind it. Each step maps some of it and merges it with the free block in front.
  if (blocks_[block].use == Use::unmapped) {
    block = map(pool, block, std::min(blocks_[block].size, size));
  }
  while (block != kNoBlock && blocks_[block].size < size) {
    const Index next = blocks_[block].next;
    expect(next != kNoBlock, "room that ends before it is enough");
    block = map(pool, next, std::min(blocks_[next].size, size - blocks_[block].size));
  }
  if (block != kNoBlock) take_out(block);
  return block;
}

/// The first of the idle blocks that lie together at the lowest address where `size` fits.
CachingAllocator::Index CachingAllocator::lowest_room(StreamPool& pool, std::int64_t size) {
  for (const Index unmapped : pool.unmapped) {
    Index first = unmapped;
    const Index before = blocks_[unmapped].previous;
    // find_expandable_block: a free block right in front of unmapped addresses counts as well. A
    // request of 30 MiB that finds 10 free MiB there maps only 20.
    if (before != kNoBlock && blocks_[before].is_idle()) first = before;
    std::int64_t room = 0;
    for (Index block = first; room < size; block = blocks_[block].next) {
      if (block == kNoBlock || !blocks_[block].is_idle()) break;
      room += blocks_[block].size;
    }
    if (room >= size) return first;
  }
  return kNoBlock;
}

/// Addresses for 1 1/8 of the device's memory: some pages may have to be unmapped low and mapped
/// again high.
CachingAllocator::Index CachingAllocator::new_space(StreamPool& pool) {
  // ExpandableSegment asks cuMemAddressReserve for whole handles: 80 GiB of memory have 90 GiB of
  // addresses in every pool of every stream.
  const std::int64_t total = device_.total().value();
  const std::int64_t size = round_up(total + total / 8, page_of(pool.kind));
  const std::uint32_t entry = free_space_entry();
  spaces_[entry] = {device_.reserve_addresses(Bytes(size), pool.stream), size};
  const Index index = new_block({});
  Block& block = blocks_[index];
  block.address = spaces_[entry].address;
  block.size = size;
  block.pool = &pool;
  block.space = entry;
  block.use = Use::unmapped;
  insert_unmapped(pool, index);
  return index;
}

std::uint32_t CachingAllocator::free_space_entry() {
  const auto entry = std::find_if(spaces_.begin(), spaces_.end(),
                                  [](const Space& space) { return space.size == 0; });
  const auto index = static_cast<std::uint32_t>(entry - spaces_.begin());
  if (entry == spaces_.end()) spaces_.emplace_back();
  return index;
}

void CachingAllocator::insert_unmapped(StreamPool& pool, Index block) {
  const auto place = std::lower_bound(
      pool.unmapped.begin(), pool.unmapped.end(), blocks_[block].address,
      [&](Index other, Address address) { return blocks_[other].address < address; });
  pool.unmapped.insert(place, block);
}

/// Maps at least the low `size` bytes of an unmapped block and joins them with their free
/// neighbours; kNoBlock where the device is out of memory.
CachingAllocator::Index CachingAllocator::map(StreamPool& pool, Index block, std::int64_t size) {
  // ExpandableSegment::map creates handles of 2 MiB in the small and 20 MiB in the large pool: 21
  // missing MiB add 40 to reserved_bytes.
  const std::int64_t mapped = round_up(size, page_of(pool.kind));
  if (!device_.map({blocks_[block].address, Bytes(mapped), pool.stream})) return kNoBlock;
  std::erase(pool.unmapped, block);
  if (mapped < blocks_[block].size) insert_unmapped(pool, cut(block, mapped));
  blocks_[block].use = Use::free;
  change_reserved(mapped);
  join_neighbours(block);
  put_back(block);
  return block;
}

/// Unmaps the pages that lie wholly within a free block.
void CachingAllocator::unmap_pages(Index block) {
  // ExpandableSegment::unmap: a handle cannot be split once it is mapped, so one that a live block
  // touches stays. A free block from 5 to 55 MiB gives back only its addresses from 20 to 40 MiB.
  const std::int64_t page = page_of(blocks_[block].pool->kind);
  const Address origin = spaces_[blocks_[block].space].address;
  const Address low = origin + round_up(blocks_[block].address - origin, page);
  const Address high = origin + (blocks_[block].end() - origin) / page * page;
  if (low >= high) return;
  take_out(block);
  if (low > blocks_[block].address) {
    const Index before = block;
    block = cut(before, low - blocks_[before].address);
    put_back(before);
  }
  if (high < blocks_[block].end()) put_back(cut(block, high - blocks_[block].address));
  device_.unmap(range_of(blocks_[block]));
  change_reserved(-blocks_[block].size);
  blocks_[block].use = Use::unmapped;
  join_neighbours(block);
  Block& unmapped = blocks_[block];
  // release_blocks: only where nothing is mapped any more does release_expandable_segment return
  // the addresses.
  if (!is_whole(unmapped)) {
    insert_unmapped(*unmapped.pool, block);
    return;
  }
  device_.return_addresses(range_of(unmapped));
  spaces_[unmapped.space] = {};
  unmapped.use = Use::unused;
  spare_blocks_.push_back(block);
}

}  // namespace memest
