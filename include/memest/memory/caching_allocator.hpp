// The caching allocator of PyTorch 2.11 (c10/cuda/CUDACachingAllocator.cpp, the native backend): it
// takes segments from the device, cuts them into blocks, keeps what is freed, and gives it back
// only when it must. Same requests in, same statistics and addresses out.
//
// The rules in short. A request is rounded up to 512 B. Up to 1 MiB it goes to the small pool
// (segments of 2 MiB), else to the large one (20 MiB below 10 MiB, else rounded up to 2 MiB). Every
// stream has its own pools. The smallest free block that is large enough is taken, the lowest
// address where sizes are equal, and cut where enough is left. Freed blocks join their free
// neighbours in the segment. Where nothing fits and no segment can be had, whole free segments go
// back to the device and the request is tried once more; then it is out of memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "memest/memory/device_memory.hpp"
#include "memest/spec/allocator.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// An allocated block. A request of 0 bytes has none.
enum class BlockId : std::uint32_t { none = 0xFFFF'FFFF };

/// A size in use now, and the most since the last reset.
struct Gauge {
  Bytes current;
  Bytes peak;

  bool operator==(const Gauge&) const = default;
};

/// By the names of torch.cuda.memory_stats().
struct AllocatorStatistics {
  Gauge allocated;       ///< blocks that the program holds
  Gauge reserved;        ///< memory taken from the device
  Gauge requested;       ///< what the program asked for, before rounding
  Gauge active;          ///< allocated, or freed and still awaited by another stream
  Gauge inactive_split;  ///< free blocks whose segment is in use; not of expandable segments
  std::int64_t active_blocks = 0;
  std::int64_t inactive_split_blocks = 0;
  std::int64_t segments = 0;  ///< without expandable ones, which PyTorch does not count
  std::int64_t retries = 0;   ///< requests that made the allocator give back what it had cached
  std::int64_t out_of_memory = 0;

  bool operator==(const AllocatorStatistics&) const = default;
};

enum class BlockState : std::uint8_t {
  allocated,
  awaiting,  ///< freed by the program, still in use by another stream
  free
};

struct BlockView {
  Address address = 0;
  Bytes size;
  Bytes requested;  ///< 0 where free
  BlockState state = BlockState::free;
};

enum class PoolKind : std::uint8_t { large, small };
inline constexpr std::size_t kPoolKinds = 2;

/// A segment with its blocks from the lowest address up; of an expandable segment, a stretch that
/// is mapped without a gap.
struct SegmentView {
  DeviceRange range;
  PoolKind pool = PoolKind::large;
  bool expandable = false;
  std::vector<BlockView> blocks;
};

/// The size of the block that a request is looked for with. Throws OverflowError above 2^60 B.
Bytes rounded_request(Bytes request, const RoundingDivisions& divisions);

/// Bytes that torch.cuda.set_per_process_memory_fraction lets the allocator reserve where the
/// fraction is `capacity / total`: that quotient has the rounding of a double.
Bytes memory_fraction_limit(Bytes capacity, Bytes total);

class CachingAllocator {
 public:
  /// `limit`: what it may reserve (PyTorch's memory fraction); absent: all that `device` gives.
  /// `device` outlives the allocator.
  CachingAllocator(const AllocatorSettings& settings, std::optional<Bytes> limit,
                   DeviceMemory& device);
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;
  CachingAllocator(CachingAllocator&&) = delete;
  CachingAllocator& operator=(CachingAllocator&&) = delete;
  ~CachingAllocator();

  /// A block of at least `request`, BlockId::none for 0 bytes; empty where it is out of memory.
  /// Streams are small numbers from 0 on.
  std::optional<BlockId> allocate(Bytes request, int stream = 0);
  /// The block may be handed out again. Also ends the wait after `free_when_done`.
  void free(BlockId block);
  /// The program frees a block that another stream still uses (record_stream): `allocated` falls,
  /// the memory stays until `free`.
  void free_when_done(BlockId block);
  /// A CUDA graph allocates from the stream's pool: what lies free in it is given back no more
  /// (release_cached_blocks has the pools of graphs that are gone alone). One stream at most.
  void keep(int stream) { kept_stream_ = stream; }
  /// torch.cuda.empty_cache(): every whole free segment (expandable: page) goes back.
  void empty_cache();
  /// torch.cuda.reset_peak_memory_stats().
  void reset_peaks();

  [[nodiscard]] const AllocatorStatistics& statistics() const { return statistics_; }
  /// Every segment by address.
  [[nodiscard]] std::vector<SegmentView> snapshot() const;
  /// Bytes of the block: its size may exceed the rounded request where it was not cut.
  [[nodiscard]] Bytes size_of(BlockId block) const;
  [[nodiscard]] Address address_of(BlockId block) const;

 private:
  using Index = std::uint32_t;
  struct Block;
  class FreeBlocks;
  struct StreamPool;
  /// The addresses of an expandable segment; a size of 0 is an unused entry.
  struct Space {
    Address address = 0;
    std::int64_t size = 0;
  };

  // Blocks and pools (caching_allocator.cpp).
  [[nodiscard]] std::int64_t rounded(Bytes request) const;
  StreamPool& pool_of(PoolKind kind, int stream);
  Index new_block(const Block& like);
  Index cut(Index block, std::int64_t size);
  void hand_out(Index block, std::int64_t size, std::int64_t request);
  void put_back(Index block);
  void take_out(Index block);
  Index join_neighbours(Index block);
  [[nodiscard]] static bool is_whole(const Block& block);
  [[nodiscard]] static DeviceRange range_of(const Block& block);
  [[nodiscard]] bool is_cut(std::int64_t block, std::int64_t size, PoolKind kind) const;
  Block& allocated_block(BlockId block);
  void change_reserved(std::int64_t bytes);

  // Where a block comes from (segments.cpp): kNoBlock where there is none.
  Index best_fit(StreamPool& pool, std::int64_t size);
  Index obtain(StreamPool& pool, std::int64_t size);
  Index grow(StreamPool& pool, std::int64_t size);
  Index new_segment(StreamPool& pool, std::int64_t size);
  void release_segment(Index block);
  void release_cached();
  bool release_oversize(StreamPool& pool, std::int64_t size);
  void collect_garbage();

  // Expandable segments (expandable.cpp).
  [[nodiscard]] std::int64_t expandable_size(const Block& block) const;
  Index map_more(StreamPool& pool, std::int64_t size);
  Index lowest_room(StreamPool& pool, std::int64_t size);
  Index new_space(StreamPool& pool);
  Index map(StreamPool& pool, Index block, std::int64_t size);
  void unmap_pages(Index block);
  void insert_unmapped(StreamPool& pool, Index block);
  std::uint32_t free_space_entry();

  AllocatorSettings settings_;
  bool rounds_to_divisions_;
  std::optional<Bytes> limit_;
  DeviceMemory& device_;
  std::int64_t max_split_size_;
  std::vector<Block> blocks_;
  std::vector<Index> spare_blocks_;
  std::optional<int> kept_stream_;
  std::array<std::vector<std::unique_ptr<StreamPool>>, kPoolKinds> pools_;  // by stream
  std::array<std::int64_t, kPoolKinds> searches_{};  // the clock of a free block's age
  std::vector<Space> spaces_;
  std::vector<Index> scratch_;
  AllocatorStatistics statistics_;
};

}  // namespace memest
