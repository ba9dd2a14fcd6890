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

/// Lays lifetimes one by one, in any order.
class Arranger {
 public:
  explicit Arranger(std::span<const Lifetime> lifetimes) : lifetimes_(lifetimes) {
    placed_.reserve(lifetimes.size());
  }

  /// Stops, with a height above `most`, as soon as it is higher.
  Packing arrange(const Order& order, std::int64_t most) {
    placed_.clear();
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
  struct Placed {
    std::int64_t offset = 0;
    std::int64_t top = 0;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };

  /// Where the gap between lifetimes that it meets is smallest; of equal ones the lowest.
  [[nodiscard]] std::int64_t best_offset(const Lifetime& lifetime) const {
    std::int64_t top = 0;
    std::int64_t best = -1;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const Placed& other : placed_) {
      if (lifetime.begin >= other.end || other.begin >= lifetime.end) continue;
      const std::int64_t gap = other.offset - top;
      if (gap >= lifetime.bytes && gap < least) {
        least = gap;
        best = top;
      }
      top = std::max(top, other.top);
    }
    return best >= 0 ? best : top;
  }

  void place(const Lifetime& lifetime, std::int64_t offset) {
    const auto at = std::upper_bound(
        placed_.begin(), placed_.end(), offset,
        [](std::int64_t value, const Placed& other) { return value < other.offset; });
    placed_.insert(at, {offset, offset + lifetime.bytes, lifetime.begin, lifetime.end});
  }

  std::span<const Lifetime> lifetimes_;
  std::vector<Placed> placed_;  // by offset
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
    for (Order& order : orders_of(lifetimes_)) {
      const std::int64_t most = order_.empty() ? kAny : best_.height - 1;
      Packing packing = arranger_.arrange(order, most);
      if (packing.height > most) continue;
      best_ = std::move(packing);
      order_ = std::move(order);
    }
    int failures = 0;
    for (std::int64_t left = kMostPairs / pairs; left > 0 && failures < kMostFailures; --left) {
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
