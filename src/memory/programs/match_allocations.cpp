#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "memest/memory/timeline_difference.hpp"

namespace memest {
namespace {

/// More differences are no longer looked for: their paths take memory by the square.
constexpr std::int64_t kMostDifferences = 2000;
/// Allocations by which the beginning of a late record is found.
constexpr std::size_t kKnownBy = 256;

struct AllocationSizes {
  std::vector<std::int64_t> bytes;
  std::vector<std::int64_t> which;  ///< storage, or number of the record's allocation
};

AllocationSizes sizes_of(const Timeline& timeline) {
  AllocationSizes sizes;
  for (const Event& event : timeline.events) {
    if (event.kind != EventKind::allocate) continue;
    sizes.bytes.push_back(timeline.storages[event.storage].bytes);
    sizes.which.push_back(event.storage);
  }
  return sizes;
}

AllocationSizes sizes_of(const AllocatorTrace& trace) {
  AllocationSizes sizes;
  for (const TraceEvent& event : trace.events) {
    if (event.kind != TraceEventKind::allocate) continue;
    sizes.bytes.push_back(event.size.value());
    sizes.which.push_back(event.number);
  }
  return sizes;
}

/// The allocation of `predicted` from which on most are those that `recorded` begins with.
std::size_t beginning_of(const AllocationSizes& predicted, const AllocationSizes& recorded) {
  std::size_t best = 0;
  std::size_t most = 0;
  for (std::size_t begin = 0; begin < predicted.bytes.size(); ++begin) {
    const std::size_t length =
        std::min({kKnownBy, predicted.bytes.size() - begin, recorded.bytes.size()});
    const auto first = predicted.bytes.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto parted =
        std::mismatch(first, first + static_cast<std::ptrdiff_t>(length), recorded.bytes.begin());
    const auto equal = static_cast<std::size_t>(parted.first - first);
    if (equal > most) std::tie(best, most) = std::pair(begin, equal);
  }
  return best;
}

/// A point of both sequences: what is before it is dealt with.
struct MatchPoint {
  std::int64_t predicted = 0;
  std::int64_t recorded = 0;
};

/// Furthest points by number of differences and diagonal (predicted less recorded).
class Paths {
 public:
  Paths(const AllocationSizes& predicted, const AllocationSizes& recorded, std::int64_t begin)
      : predicted_(predicted.bytes), recorded_(recorded.bytes), begin_(begin) {}

  /// Goes on until either side ends; false where too much differs.
  bool run() {
    for (std::int64_t d = 0; d <= kMostDifferences; ++d) {
      fronts_.emplace_back(static_cast<std::size_t>(2 * d + 1), kUnreached);
      bool ended = false;
      for (std::int64_t k = -d; k <= d; k += 2) {
        at(d, k) = slide(start_of(d, k), k);
        ended = ended || ends(at(d, k), k);
      }
      // Several ways may have as few differences: the one that matches most is taken.
      if (ended) return settle(d, furthest(d, true), true);
    }
    return settle(kMostDifferences, furthest(kMostDifferences, false), false);
  }

  /// Matches from the end to the beginning, so that they come in reverse.
  [[nodiscard]] std::vector<MatchPoint> matches() const {
    std::vector<MatchPoint> result;
    std::int64_t k = diagonal_;
    std::int64_t x = end_.predicted;
    for (std::int64_t d = differences_;; --d) {
      const std::int64_t start = start_of(d, k);
      for (; x > start; --x) result.push_back({x - 1, recorded_at(x, k) - 1});
      if (d == 0) return result;
      const bool inserted = is_insertion(d, k);
      k += inserted ? 1 : -1;
      x = fronts_[static_cast<std::size_t>(d - 1)][index(d - 1, k)];
    }
  }

  [[nodiscard]] MatchPoint end() const { return end_; }

 private:
  static constexpr std::int64_t kUnreached = -1;

  static std::size_t index(std::int64_t d, std::int64_t k) {
    return static_cast<std::size_t>(d + k);
  }
  std::int64_t& at(std::int64_t d, std::int64_t k) {
    return fronts_[static_cast<std::size_t>(d)][index(d, k)];
  }
  [[nodiscard]] std::int64_t reached(std::int64_t d, std::int64_t k) const {
    return k < -d || k > d ? kUnreached : fronts_[static_cast<std::size_t>(d)][index(d, k)];
  }
  [[nodiscard]] std::int64_t recorded_at(std::int64_t x, std::int64_t k) const {
    return x - begin_ - k;
  }

  /// Whether the step to diagonal `k` takes one of the record's; otherwise one of the prediction's.
  [[nodiscard]] bool is_insertion(std::int64_t d, std::int64_t k) const {
    return k == -d || (k != d && reached(d - 1, k - 1) < reached(d - 1, k + 1));
  }

  [[nodiscard]] std::int64_t start_of(std::int64_t d, std::int64_t k) const {
    if (d == 0) return begin_;
    return is_insertion(d, k) ? reached(d - 1, k + 1) : reached(d - 1, k - 1) + 1;
  }

  [[nodiscard]] std::int64_t slide(std::int64_t x, std::int64_t k) const {
    for (;; ++x) {
      const std::int64_t y = recorded_at(x, k);
      const bool inside = x < std::ssize(predicted_) && y < std::ssize(recorded_);
      if (!inside ||
          predicted_[static_cast<std::size_t>(x)] != recorded_[static_cast<std::size_t>(y)])
        return x;
    }
  }

  [[nodiscard]] bool ends(std::int64_t x, std::int64_t k) const {
    return x >= std::ssize(predicted_) || recorded_at(x, k) >= std::ssize(recorded_);
  }

  bool settle(std::int64_t d, std::int64_t k, bool found) {
    differences_ = d;
    diagonal_ = k;
    end_ = {at(d, k), recorded_at(at(d, k), k)};
    return found;
  }

  /// The diagonal of a front that got furthest, among those at an end where `at_end`.
  [[nodiscard]] std::int64_t furthest(std::int64_t d, bool at_end) const {
    std::int64_t best = -d;
    std::int64_t most = -1;
    for (std::int64_t k = -d; k <= d; k += 2) {
      const std::int64_t x = reached(d, k);
      const std::int64_t passed = x + recorded_at(x, k);
      if (passed <= most || (at_end && !ends(x, k))) continue;
      best = k;
      most = passed;
    }
    return best;
  }

  const std::vector<std::int64_t>& predicted_;
  const std::vector<std::int64_t>& recorded_;
  std::int64_t begin_;
  std::vector<std::vector<std::int64_t>> fronts_;  // by differences: the predicted ones passed
  std::int64_t differences_ = 0;
  std::int64_t diagonal_ = 0;
  MatchPoint end_;
};

/// Adds what stands between two matches, one beside the other as far as both sides have any.
void add_gap(const AllocationSizes& predicted, const AllocationSizes& recorded,
             std::pair<MatchPoint, MatchPoint> gap, std::vector<UnmatchedAllocation>& out) {
  auto [from, to] = gap;
  while (from.predicted < to.predicted || from.recorded < to.recorded) {
    UnmatchedAllocation row;
    if (from.predicted < to.predicted) {
      row.predicted =
          static_cast<StorageId>(predicted.which[static_cast<std::size_t>(from.predicted++)]);
    }
    if (from.recorded < to.recorded) {
      row.recorded = recorded.which[static_cast<std::size_t>(from.recorded++)];
    }
    out.push_back(row);
  }
}

}  // namespace

AllocationMatch match_allocations(const Timeline& predicted, const AllocatorTrace& recorded) {
  const AllocationSizes mine = sizes_of(predicted);
  const AllocationSizes theirs = sizes_of(recorded);
  AllocationMatch result;
  if (recorded.earlier.count > 0) result.predicted_before = beginning_of(mine, theirs);
  const auto begin = static_cast<std::int64_t>(result.predicted_before);
  Paths paths(mine, theirs, begin);
  result.given_up = !paths.run();
  std::vector<MatchPoint> matches = paths.matches();
  result.matched = matches.size();
  std::reverse(matches.begin(), matches.end());
  MatchPoint from{begin, 0};
  for (const MatchPoint& match : matches) {
    add_gap(mine, theirs, {from, match}, result.unmatched);
    from = {match.predicted + 1, match.recorded + 1};
  }
  const MatchPoint end = paths.end();
  add_gap(mine, theirs, {from, end}, result.unmatched);
  result.predicted_after = mine.bytes.size() - static_cast<std::size_t>(end.predicted);
  result.recorded_after = theirs.bytes.size() - static_cast<std::size_t>(end.recorded);
  return result;
}

}  // namespace memest
