// MXNet's plan is nnvm's (dmlc/nnvm, src/pass/plan_memory.cc, AllocMemory and GraphAllocator): a
// result takes over the buffer of an input that nothing else will read, else the pool's nearest
// buffer from its size up to 16 times it, else down to a sixteenth, which then grows, else a new
// one.
#include "memest/memory/forward_buffers.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "memest/graph/forward_storages.hpp"
#include "memest/memory/caching_allocator.hpp"
#include "memest/memory/device_memory.hpp"
#include "memest/memory/packing.hpp"
#include "memest/units/int128.hpp"
#include "memory/allocator/block.hpp"

namespace memest {
namespace {

/// NNVM_EXEC_MATCH_RANGE.
constexpr std::int64_t kMatchRange = 16;

/// A device that no plan fills.
constexpr Bytes kEnough{std::int64_t{1} << 50};

/// GraphAllocator: buffers of a pool, which grow and never split.
class BufferPool {
 public:
  std::size_t take(std::int64_t bytes) {
    const auto middle = free_.lower_bound(bytes);
    const auto end = free_.upper_bound(checked_multiply(bytes, kMatchRange));
    if (middle != free_.end() && middle != end) return taken(middle, bytes);
    if (middle != free_.begin()) {
      const auto smaller = std::prev(middle);
      if (smaller->first >= bytes / kMatchRange) return taken(smaller, bytes);
    }
    sizes_.push_back(bytes);
    return sizes_.size() - 1;
  }

  void give_back(std::size_t buffer) { free_.emplace(sizes_[buffer], buffer); }

  [[nodiscard]] std::int64_t height() const {
    std::int64_t sum = 0;
    for (const std::int64_t bytes : sizes_) sum = checked_add(sum, bytes);
    return sum;
  }

 private:
  using Free = std::multimap<std::int64_t, std::size_t>;

  std::size_t taken(Free::const_iterator buffer, std::int64_t bytes) {
    const std::size_t number = buffer->second;
    sizes_[number] = std::max(sizes_[number], bytes);
    free_.erase(buffer);
    return number;
  }

  std::vector<std::int64_t> sizes_;
  Free free_;
};

/// A buffer's life in half operations: taken at an even number, given back at an odd one.
struct Life {
  std::int64_t bytes = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

class Plan {
 public:
  Plan(const Graph& graph, const ForwardStorages& pass, bool in_place)
      : graph_(graph), pass_(pass), in_place_(in_place) {
    readers_.resize(pass.storages.size(), 0);
    buffer_.resize(pass.storages.size(), kNone);
    for (const ForwardOp& op : pass.ops) {
      for (const StorageIndex storage : op.reads) ++readers_[storage];
    }
    ++readers_[pass.output];  // by the caller
    for (std::size_t at = 0; at < pass.ops.size(); ++at) run(at);
  }

  [[nodiscard]] BufferHeights heights(const AllocatorSettings& allocator) const {
    BufferHeights heights;
    heights.buffers = lives_.size();
    heights.counted = pool_.height();
    std::vector<Lifetime> lifetimes;
    for (const Life& life : lives_) {
      heights.apart = checked_add(heights.apart, life.bytes);
      const std::uint32_t end = life.end == 0 ? last() : life.end;
      lifetimes.push_back({life.bytes, life.begin, end});
    }
    heights.bound = packing_bound(lifetimes);
    heights.packed = pack_by_search(lifetimes).height;
    heights.cached = cached(lifetimes, allocator);
    return heights;
  }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  [[nodiscard]] std::uint32_t last() const {
    return static_cast<std::uint32_t>(2 * pass_.ops.size() + 1);
  }

  void run(std::size_t at) {
    const ForwardOp& op = pass_.ops[at];
    const auto now = static_cast<std::uint32_t>(2 * at);
    if (in_place_) take_over(op);
    std::vector<StorageIndex> made = op.writes;
    made.insert(made.end(), op.scratch.begin(), op.scratch.end());
    std::erase_if(made, [this](StorageIndex storage) {
      return buffer_[storage] != kNone || !pass_.storages[storage].made;
    });
    std::ranges::stable_sort(made, std::ranges::greater(), [this](StorageIndex storage) {
      return pass_.storages[storage].bytes;
    });
    for (const StorageIndex storage : made) take(storage, now);
    for (const StorageIndex storage : op.reads) {
      if (buffer_[storage] != kNone && --readers_[storage] == 0) give_back(storage, now + 1);
    }
    for (const StorageIndex storage : made) {
      if (readers_[storage] == 0) give_back(storage, now + 1);
    }
  }

  /// A result in the buffer of an input that this op alone still reads.
  void take_over(const ForwardOp& op) {
    if (!may_be_in_place(graph_.blocks[op.block].ops[op.op].kind)) return;
    const StorageIndex result = op.writes.back();
    if (buffer_[result] != kNone) return;
    for (const StorageIndex input : op.reads) {
      const ForwardStorage& given = pass_.storages[input];
      const ForwardStorage& made = pass_.storages[result];
      const bool alike = given.bytes == made.bytes && given.dtype == made.dtype;
      if (!alike || buffer_[input] == kNone || readers_[input] != 1 || given.answered) continue;
      buffer_[result] = buffer_[input];
      life_of_buffer_[result] = life_of_buffer_[input];
      buffer_[input] = kNone;
      return;
    }
  }

  void take(StorageIndex storage, std::uint32_t now) {
    const std::int64_t bytes = round_up(pass_.storages[storage].bytes, kMinBlockSize);
    buffer_[storage] = pool_.take(bytes);
    life_of_buffer_[storage] = lives_.size();
    lives_.push_back({bytes, now, 0});
  }

  void give_back(StorageIndex storage, std::uint32_t now) {
    // An answer stays with whoever asked.
    if (pass_.storages[storage].answered) return;
    pool_.give_back(buffer_[storage]);
    lives_[life_of_buffer_[storage]].end = now;
    buffer_[storage] = kNone;
  }

  [[nodiscard]] static std::int64_t cached(const std::vector<Lifetime>& lifetimes,
                                           const AllocatorSettings& settings) {
    PredictedDevice device(kEnough);
    CachingAllocator allocator(settings, std::nullopt, device);
    std::vector<BlockId> blocks(lifetimes.size(), BlockId::none);
    // Lives begin in order; those that end are few at a time.
    std::multimap<std::uint32_t, std::size_t> ends;
    for (std::size_t i = 0; i < lifetimes.size(); ++i) {
      while (!ends.empty() && ends.begin()->first <= lifetimes[i].begin) {
        allocator.free(blocks[ends.begin()->second]);
        ends.erase(ends.begin());
      }
      blocks[i] = allocator.allocate(Bytes(lifetimes[i].bytes)).value_or(BlockId::none);
      ends.emplace(lifetimes[i].end, i);
    }
    return allocator.statistics().reserved.peak.value();
  }

  const Graph& graph_;
  const ForwardStorages& pass_;
  bool in_place_;
  std::vector<std::int64_t> readers_;
  std::vector<std::size_t> buffer_;
  std::map<StorageIndex, std::size_t> life_of_buffer_;  ///< index into lives_
  std::vector<Life> lives_;
  BufferPool pool_;
};

}  // namespace

std::variant<ForwardBuffers, Unavailable> forward_buffers(const Graph& graph,
                                                          const AllocatorSettings& allocator) {
  const ForwardStorages pass = forward_storages(graph);
  if (pass.storages.size() > kMostPacked) {
    return Unavailable{"a plan for more than 100,000 results is not available: fewer layers"};
  }
  return ForwardBuffers{Plan(graph, pass, false).heights(allocator),
                        Plan(graph, pass, true).heights(allocator)};
}

}  // namespace memest
