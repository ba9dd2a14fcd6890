#include "memest/memory/packing.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

using Order = std::vector<std::uint32_t>;

std::uint32_t length(const Lifetime& one) { return one.end - one.begin; }

/// The search looks at about so many pairs of lifetimes: half a second's.
constexpr std::int64_t kMostPairs = 400'000'000;
/// So many placements in a row that are no lower end it.
constexpr int kMostFailures = 400;

struct Placed {
  std::int64_t offset = 0;
  std::int64_t top = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// Placed lifetimes by offset, in chunks: a long vector would be moved with every insertion.
class PlacedList {
 public:
  void insert(const Placed& one) {
    const auto is_below = [](std::int64_t offset, const Placed& other) {
      return offset < other.offset;
    };
    if (chunks_.empty()) chunks_.emplace_back();
    auto chunk = std::upper_bound(chunks_.begin() + 1, chunks_.end(), one.offset,
                                  [&](std::int64_t offset, const std::vector<Placed>& other) {
                                    return is_below(offset, other.front());
                                  });
    --chunk;
    chunk->insert(std::upper_bound(chunk->begin(), chunk->end(), one.offset, is_below), one);
    if (chunk->size() < kMostOfAChunk) return;
    const auto middle = chunk->begin() + static_cast<std::ptrdiff_t>(chunk->size() / 2);
    std::vector<Placed> upper(middle, chunk->end());
    chunk->erase(middle, chunk->end());
    chunks_.insert(chunk + 1, std::move(upper));
  }

  template <class Look>
  void each(Look look) const {
    for (const std::vector<Placed>& chunk : chunks_) {
      for (const Placed& one : chunk) look(one);
    }
  }

 private:
  static constexpr std::size_t kMostOfAChunk = 512;
  std::vector<std::vector<Placed>> chunks_;
};

/// Lays lifetimes one by one, in any order. Most live for a few events: those are held against the
/// lifetimes of their part of the timeline alone.
class Arranger {
 public:
  explicit Arranger(std::span<const Lifetime> lifetimes) : lifetimes_(lifetimes) {
    std::uint32_t end = 1;
    for (const Lifetime& one : lifetimes) end = std::max(end, one.end);
    events_of_part_ = end / kParts + 1;
  }

  /// Stops, with a height above `most`, as soon as it is higher.
  Packing arrange(const Order& order, std::int64_t most) {
    all_ = {};
    parts_.assign(kParts, {});
    Packing packing{std::vector<std::int64_t>(lifetimes_.size()), 0};
    for (const std::uint32_t index : order) {
      const Lifetime& lifetime = lifetimes_[index];
      const std::int64_t offset = best_offset(lifetime);
      packing.offsets[index] = offset;
      packing.height = std::max(packing.height, offset + lifetime.bytes);
      if (packing.height > most) return packing;
      place(lifetime, offset);
    }
    return packing;
  }

 private:
  static constexpr std::uint32_t kParts = 128;

  [[nodiscard]] std::uint32_t first_part(const Lifetime& one) const {
    return one.begin / events_of_part_;
  }
  [[nodiscard]] std::uint32_t last_part(const Lifetime& one) const {
    return (std::max(one.begin + 1, one.end) - 1) / events_of_part_;
  }

  /// Where the gap between lifetimes that it meets is smallest; of equal ones the lowest.
  [[nodiscard]] std::int64_t best_offset(const Lifetime& lifetime) const {
    std::int64_t top = 0;
    std::int64_t best = -1;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    const std::uint32_t part = first_part(lifetime);
    const PlacedList& list = part == last_part(lifetime) ? parts_[part] : all_;
    list.each([&](const Placed& other) {
      if (lifetime.begin >= other.end || other.begin >= lifetime.end) return;
      const std::int64_t gap = other.offset - top;
      if (gap >= lifetime.bytes && gap < least) {
        least = gap;
        best = top;
      }
      top = std::max(top, other.top);
    });
    return best >= 0 ? best : top;
  }

  void place(const Lifetime& lifetime, std::int64_t offset) {
    const Placed placed{offset, offset + lifetime.bytes, lifetime.begin, lifetime.end};
    all_.insert(placed);
    for (std::uint32_t part = first_part(lifetime); part <= last_part(lifetime); ++part) {
      parts_[part].insert(placed);
    }
  }

  std::span<const Lifetime> lifetimes_;
  std::uint32_t events_of_part_ = 1;
  PlacedList all_;
  std::vector<PlacedList> parts_;  // of the timeline, with what lives in each
};

/// By `key`, largest first; of equal ones as given.
template <class Key>
Order by_largest(std::span<const Lifetime> lifetimes, Key key) {
  Order order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t left, std::uint32_t right) {
    return key(lifetimes[left]) > key(lifetimes[right]);
  });
  return order;
}

Order largest_first(std::span<const Lifetime> lifetimes) {
  return by_largest(lifetimes,
                    [](const Lifetime& one) { return std::pair(one.bytes, length(one)); });
}

std::array<Order, 4> orders_of(std::span<const Lifetime> lifetimes) {
  return {
      largest_first(lifetimes),
      by_largest(lifetimes,
                 [](const Lifetime& one) { return static_cast<Int128>(one.bytes) * length(one); }),
      by_largest(lifetimes, [](const Lifetime& one) { return length(one); }),
      by_largest(lifetimes, [](const Lifetime& one) { return ~one.begin; })};
}

/// Moves lifetimes that reach the top to an earlier place in the order.
class LocalSearch {
 public:
  LocalSearch(std::span<const Lifetime> lifetimes, std::int64_t bound)
      : lifetimes_(lifetimes), bound_(bound), arranger_(lifetimes) {}

  Packing run() {
    const auto count = static_cast<std::int64_t>(lifetimes_.size());
    const std::int64_t pairs = std::max<std::int64_t>(1, count * count / 2);
    std::int64_t left = kMostPairs / pairs;
    for (Order& order : orders_of(lifetimes_)) {
      if (!order_.empty() && (best_.height == bound_ || left <= 0)) break;
      --left;
      const std::int64_t most = order_.empty() ? kAny : best_.height - 1;
      Packing packing = arranger_.arrange(order, most);
      if (packing.height > most) continue;
      best_ = std::move(packing);
      order_ = std::move(order);
    }
    int failures = 0;
    for (; left > 0 && failures < kMostFailures; --left) {
      if (best_.height == bound_) break;
      failures = improve() ? 0 : failures + 1;
    }
    return std::move(best_);
  }

 private:
  static constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

  /// Whether a placement was lower; one that is as high is taken too, to leave plateaus.
  bool improve() {
    std::vector<std::size_t> places;  // in the order, of those that reach the top
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const std::uint32_t index = order_[i];
      if (best_.offsets[index] + lifetimes_[index].bytes == best_.height) places.push_back(i);
    }
    const std::size_t from = places[draw(places.size())];
    if (from == 0) return false;
    const std::size_t to = draw(from);
    Order order = order_;
    std::rotate(order.begin() + static_cast<std::ptrdiff_t>(to),
                order.begin() + static_cast<std::ptrdiff_t>(from),
                order.begin() + static_cast<std::ptrdiff_t>(from) + 1);
    Packing packing = arranger_.arrange(order, best_.height);
    if (packing.height > best_.height) return false;
    const bool lower = packing.height < best_.height;
    best_ = std::move(packing);
    order_ = std::move(order);
    return lower;
  }

  /// Below `count`: attempts walk through the range by the golden section, which leaves no part of
  /// it out for long (Knuth, The Art of Computer Programming 3, 6.4).
  std::size_t draw(std::size_t count) {
    constexpr std::uint64_t kGoldenSection = 0x9E37'79B9'7F4A'7C15;  // 2^64 / 1.618...
    walked_ += kGoldenSection;
    return static_cast<std::size_t>((walked_ >> 32U) * count >> 32U);
  }

  std::span<const Lifetime> lifetimes_;
  std::int64_t bound_;
  Arranger arranger_;
  Packing best_;
  Order order_;
  std::uint64_t walked_ = 0;
};

}  // namespace

std::int64_t packing_bound(std::span<const Lifetime> lifetimes) {
  // At an event what ends makes room for what begins.
  std::vector<std::pair<std::uint32_t, std::int64_t>> changes;
  changes.reserve(2 * lifetimes.size());
  for (const Lifetime& one : lifetimes) {
    if (one.begin == one.end) continue;
    changes.emplace_back(one.begin, one.bytes);
    changes.emplace_back(one.end, -one.bytes);
  }
  std::sort(changes.begin(), changes.end());
  std::int64_t alive = 0;
  std::int64_t most = 0;
  for (const auto& [event, bytes] : changes) {
    alive = checked_add(alive, bytes);
    most = std::max(most, alive);
  }
  return most;
}

Packing pack_by_size(std::span<const Lifetime> lifetimes) {
  return Arranger(lifetimes).arrange(largest_first(lifetimes),
                                     std::numeric_limits<std::int64_t>::max());
}

Packing pack_by_search(std::span<const Lifetime> lifetimes) {
  return LocalSearch(lifetimes, packing_bound(lifetimes)).run();
}

}  // namespace memest
