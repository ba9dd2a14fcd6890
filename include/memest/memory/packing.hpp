// Buffer reuse as strip packing: tensors are rectangles, as wide as their lives and as high as
// their bytes, laid into one arena of least height. Two of them may share bytes where their lives
// do not meet. The problem is NP-hard (dynamic storage allocation, Garey & Johnson SR2); what is
// here are heuristics beside the bound that no arena is below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "memest/memory/timeline.hpp"

namespace memest {

/// A tensor's life, in events: [begin, end).
struct Lifetime {
  std::int64_t bytes = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

struct Packing {
  std::vector<std::int64_t> offsets;  ///< of each lifetime, in the order given
  std::int64_t height = 0;            ///< bytes of the arena
};

/// The most bytes that are alive at once: no packing is lower.
std::int64_t packing_bound(std::span<const Lifetime> lifetimes);

/// Best fit by size: the largest first, each into the lowest gap that it leaves least of among the
/// lifetimes it meets ("Greedy by Size", Pisarchyk & Lee, arXiv:2001.03288, as TensorFlow Lite's
/// planner has it). O(n²) with a small factor.
Packing pack_by_size(std::span<const Lifetime> lifetimes);

/// The best of several orders (size, area, life, begin), then a local search: a lifetime that
/// reaches the top is packed earlier, and stays so where that is no worse. The search ends at
/// packing_bound(), and after so many placements. Never higher than pack_by_size(); the same
/// lifetimes are packed alike.
Packing pack_by_search(std::span<const Lifetime> lifetimes);

/// An arena over the whole timeline for the storages of one stream: what one stream frees another
/// may still read, so they share no bytes.
struct Arena {
  PartStream stream = Stream::compute;
  std::vector<StorageId> storages;
  std::vector<Lifetime> lifetimes;  ///< rounded up to what the allocator rounds to
  std::int64_t bound = 0;
  std::int64_t by_size = 0;  ///< height of pack_by_size()
  Packing packing;           ///< of pack_by_search()
};

/// Static memory plan of a timeline. Storages that nothing frees live to its end. Unavailable for
/// more than kMostPacked of them: the time grows with their square.
std::variant<std::vector<Arena>, Unavailable> pack_timeline(const Timeline& timeline);
inline constexpr std::size_t kMostPacked = 100'000;

}  // namespace memest
