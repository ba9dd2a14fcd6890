#include <algorithm>

#include "memory/allocator/free_blocks.hpp"

namespace memest {
namespace {

BlockState state_of(Use use) {
  if (use == Use::allocated) return BlockState::allocated;
  return use == Use::awaiting ? BlockState::awaiting : BlockState::free;
}

}  // namespace

std::vector<SegmentView> CachingAllocator::snapshot() const {
  const auto is_mapped = [&](Index block) {
    return block != kNoBlock && blocks_[block].use != Use::unmapped;
  };
  std::vector<SegmentView> segments;
  for (const Block& head : blocks_) {
    // DeviceCachingAllocator::snapshot reports an expandable segment as one entry for each range
    // that is mapped without a gap.
    if (head.use == Use::unused || head.use == Use::unmapped || is_mapped(head.previous)) continue;
    SegmentView segment{
        {head.address, Bytes(0), head.pool->stream}, head.pool->kind, head.space != kNoSpace, {}};
    const Block* block = &head;
    while (true) {
      segment.range.size += Bytes(block->size);
      segment.blocks.push_back(
          {block->address, Bytes(block->size), Bytes(block->requested), state_of(block->use)});
      if (!is_mapped(block->next)) break;
      block = &blocks_[block->next];
    }
    segments.push_back(std::move(segment));
  }
  std::sort(segments.begin(), segments.end(),
            [](const SegmentView& left, const SegmentView& right) {
              return left.range.address < right.range.address;
            });
  return segments;
}

}  // namespace memest
