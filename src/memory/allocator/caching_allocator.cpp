#include "memest/memory/caching_allocator.hpp"

#include <algorithm>
#include <bit>

#include "memest/diag/expect.hpp"
#include "memory/allocator/free_blocks.hpp"

namespace memest {
namespace {

constexpr std::int64_t kLargestRequest = std::int64_t{1} << 60U;
constexpr int kMostStreams = 1 << 16;

void raise(Gauge& gauge, std::int64_t bytes) {
  gauge.current += Bytes(bytes);
  gauge.peak = std::max(gauge.peak, gauge.current);
}

void lower(Gauge& gauge, std::int64_t bytes) { gauge.current -= Bytes(bytes); }

}  // namespace

Bytes rounded_request(Bytes request, const RoundingDivisions& divisions) {
  const std::int64_t size = request.value();
  if (size > kLargestRequest) throw OverflowError("a request of more than 2^60 B");
  // CUDACachingAllocator::round_size: every size is a multiple of 512 B.
  if (size < kMinBlockSize) return Bytes(kMinBlockSize);
  const std::int64_t below =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(size)));
  const int power = std::countr_zero(static_cast<std::uint64_t>(below));
  constexpr int kFirstClass = 20;  // log2 of 1 MiB
  // AcceleratorAllocatorConfig::roundup_power2_divisions(size): one entry a power of two, the first
  // for all sizes below 2 MiB, the last for all from 32 GiB on.
  const auto size_class =
      std::clamp(power - kFirstClass, 0, static_cast<int>(kRoundingClasses) - 1);
  const std::int64_t parts = divisions[static_cast<std::size_t>(size_class)];
  // roundup_power2_next_division: with 4 divisions 1,200 KiB become 1,280 (steps of 256 from
  // 1,024), and a power of two stays as it is. Smaller sizes would have steps below 512 B: the
  // plain rule holds for them.
  if (parts > 1 && size > kMinBlockSize * parts) {
    return Bytes(size == below ? size : round_up(size, below / parts));
  }
  return Bytes(round_up(size, kMinBlockSize));
}

Bytes memory_fraction_limit(Bytes capacity, Bytes total) {
  // setMemoryFraction: the fraction times the device's total in double, cut to whole bytes.
  return Bytes(static_cast<std::int64_t>(capacity / total * total.as_double()));
}

CachingAllocator::CachingAllocator(const AllocatorSettings& settings, std::optional<Bytes> limit,
                                   DeviceMemory& device)
    : settings_(settings),
      rounds_to_divisions_(std::ranges::any_of(settings.roundup_power2_divisions,
                                               [](std::int64_t parts) { return parts > 1; })),
      limit_(limit),
      device_(device),
      max_split_size_(settings.max_split_size ? settings.max_split_size->value() : kUnlimited) {}

CachingAllocator::~CachingAllocator() = default;

std::optional<BlockId> CachingAllocator::allocate(Bytes request, int stream) {
  expect(request >= Bytes(0), "a request of less than nothing");
  // NativeCachingAllocator::allocate: an empty tensor has a null pointer and counts in no
  // statistic.
  if (request == Bytes(0)) return BlockId::none;
  const std::int64_t size = rounded(request);
  StreamPool& pool = pool_of(pool_kind_of(size), stream);
  // DeviceCachingAllocator::malloc: get_free_block first, the device only where the pool has
  // nothing.
  Index block = best_fit(pool, size);
  if (block == kNoBlock) block = obtain(pool, size);
  if (block == kNoBlock) {
    ++statistics_.out_of_memory;
    return {};
  }
  hand_out(block, size, request.value());
  return BlockId(block);
}

std::int64_t CachingAllocator::rounded(Bytes request) const {
  if (rounds_to_divisions_ || request.value() > kLargestRequest) {
    return rounded_request(request, settings_.roundup_power2_divisions).value();
  }
  return round_up(request.value(), kMinBlockSize);
}

void CachingAllocator::free(BlockId block) {
  if (block == BlockId::none) return;
  Block& freed = allocated_block(block);
  // DeviceCachingAllocator::free lowers allocated_bytes at once; free_block, behind the last event
  // of another stream, lowers active_bytes and requested_bytes.
  if (freed.use == Use::allocated) lower(statistics_.allocated, freed.size);
  lower(statistics_.active, freed.size);
  lower(statistics_.requested, freed.requested);
  --statistics_.active_blocks;
  freed.requested = 0;
  freed.use = Use::free;
  put_back(join_neighbours(static_cast<Index>(block)));
}

void CachingAllocator::free_when_done(BlockId block) {
  if (block == BlockId::none) return;
  // insert_events: a block with recorded stream uses is no longer allocated, but cannot be handed
  // out or merged while an event is outstanding.
  Block& freed = allocated_block(block);
  expect(freed.use == Use::allocated, "a block freed twice");
  lower(statistics_.allocated, freed.size);
  freed.use = Use::awaiting;
}

void CachingAllocator::empty_cache() { release_cached(); }

void CachingAllocator::reset_peaks() {
  for (Gauge* gauge : {&statistics_.allocated, &statistics_.reserved, &statistics_.requested,
                       &statistics_.active, &statistics_.inactive_split}) {
    gauge->peak = gauge->current;
  }
}

Bytes CachingAllocator::size_of(BlockId block) const {
  return block == BlockId::none ? Bytes(0) : Bytes(blocks_.at(static_cast<Index>(block)).size);
}

Address CachingAllocator::address_of(BlockId block) const {
  return block == BlockId::none ? 0 : blocks_.at(static_cast<Index>(block)).address;
}

CachingAllocator::Block& CachingAllocator::allocated_block(BlockId block) {
  const auto index = static_cast<Index>(block);
  expect(index < blocks_.size(), "a block that was never allocated");
  const Use use = blocks_[index].use;
  expect(use == Use::allocated || use == Use::awaiting, "a block that is not allocated");
  return blocks_[index];
}

void CachingAllocator::change_reserved(std::int64_t bytes) { raise(statistics_.reserved, bytes); }

CachingAllocator::StreamPool& CachingAllocator::pool_of(PoolKind kind, int stream) {
  expect(stream >= 0 && stream < kMostStreams, "streams are small numbers");
  // BlockComparatorSize orders by stream before size, and get_free_block refuses a block of another
  // stream: memory that one stream has freed never serves a second one.
  std::vector<std::unique_ptr<StreamPool>>& pools = pools_[index_of(kind)];
  while (pools.size() <= static_cast<std::size_t>(stream)) {
    auto pool = std::make_unique<StreamPool>();
    pool->kind = kind;
    pool->stream = static_cast<std::int32_t>(pools.size());
    pools.push_back(std::move(pool));
  }
  return *pools[static_cast<std::size_t>(stream)];
}

CachingAllocator::Index CachingAllocator::new_block(const Block& like) {
  if (!spare_blocks_.empty()) {
    const Index block = spare_blocks_.back();
    spare_blocks_.pop_back();
    blocks_[block] = like;
    return block;
  }
  expect(blocks_.size() < kNoBlock, "fewer blocks than 2^32");
  blocks_.push_back(like);
  return static_cast<Index>(blocks_.size() - 1);
}

/// Keeps the low `size` bytes of the block and returns the rest, linked behind it, in no list.
CachingAllocator::Index CachingAllocator::cut(Index block, std::int64_t size) {
  const Index rest = new_block(blocks_[block]);
  Block& low = blocks_[block];
  Block& high = blocks_[rest];
  high.address = low.address + size;
  high.size = low.size - size;
  high.previous = block;
  if (low.next != kNoBlock) blocks_[low.next].previous = rest;
  low.next = rest;
  low.size = size;
  return rest;
}

bool CachingAllocator::is_whole(const Block& block) {
  return block.previous == kNoBlock && block.next == kNoBlock;
}

bool CachingAllocator::is_cut(std::int64_t block, std::int64_t size, PoolKind kind) const {
  // should_split: in the large pool a rest of up to 1 MiB stays with the block, and allocated_bytes
  // counts it: 11.5 MiB in a new segment of 12 MiB count as 12 MiB. With expandable segments, or in
  // the small pool, 512 B are enough to cut.
  const std::int64_t rest = block - size;
  if (kind == PoolKind::small || settings_.expandable_segments) return rest >= kMinBlockSize;
  return size < max_split_size_ && rest > kSmallSize;
}

/// The block is in no list; what is left of it goes to its pool.
void CachingAllocator::hand_out(Index block, std::int64_t size, std::int64_t request) {
  if (is_cut(blocks_[block].size, size, blocks_[block].pool->kind)) put_back(cut(block, size));
  // alloc_found_block: allocated_bytes and active_bytes grow by the block, requested_bytes by the
  // size before rounding.
  Block& given = blocks_[block];
  given.use = Use::allocated;
  given.requested = request;
  raise(statistics_.allocated, given.size);
  raise(statistics_.active, given.size);
  raise(statistics_.requested, request);
  ++statistics_.active_blocks;
}

void CachingAllocator::put_back(Index block) {
  Block& freed = blocks_[block];
  // BlockPool::insert_into_blocks: the age of a block counts from here.
  freed.born = searches_[index_of(freed.pool->kind)];
  freed.pool->free.insert(blocks_, block);
  // free_block: inactive_split leaves out expandable segments, because their whole free pages can
  // always go back.
  if (freed.space != kNoSpace || is_whole(freed)) return;
  ++statistics_.inactive_split_blocks;
  raise(statistics_.inactive_split, freed.size);
}

void CachingAllocator::take_out(Index block) {
  const Block& taken = blocks_[block];
  taken.pool->free.erase(blocks_, block);
  if (taken.space != kNoSpace || is_whole(taken)) return;
  --statistics_.inactive_split_blocks;
  lower(statistics_.inactive_split, taken.size);
}

/// Joins an idle block, which is in no list, with its neighbours that are idle in the same way.
CachingAllocator::Index CachingAllocator::join_neighbours(Index block) {
  // try_merge_blocks: mapped blocks merge with mapped ones, unmapped with unmapped, and neither
  // with a block that an event still holds.
  for (const Index other : {blocks_[block].previous, blocks_[block].next}) {
    if (other == kNoBlock || blocks_[other].use != blocks_[block].use) continue;
    Block& kept = blocks_[block];
    Block& joined = blocks_[other];
    if (joined.use == Use::free) {
      take_out(other);
    } else {
      std::erase(joined.pool->unmapped, other);
    }
    if (other == kept.previous) {
      kept.address = joined.address;
      kept.previous = joined.previous;
      if (kept.previous != kNoBlock) blocks_[kept.previous].next = block;
    } else {
      kept.next = joined.next;
      if (kept.next != kNoBlock) blocks_[kept.next].previous = block;
    }
    kept.size += joined.size;
    joined.use = Use::unused;
    spare_blocks_.push_back(other);
  }
  return block;
}

}  // namespace memest
