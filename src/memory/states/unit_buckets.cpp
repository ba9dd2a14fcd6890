#include "memory/states/unit_buckets.hpp"

#include <algorithm>
#include <numeric>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

using Members = std::vector<std::size_t>;

/// Step 1 and 2 of _get_parameter_groups: by unit and type, and outside of units by size.
class BucketGroups {
 public:
  BucketGroups(const std::vector<BucketedParameter>& parameters, std::int64_t full)
      : parameters_(parameters), full_(full) {}

  std::vector<Members> collect() && {
    for (std::size_t i = 0; i < parameters_.size(); ++i) group_of(i).push_back(i);
    std::vector<Members> buckets;
    for (const Members& group : groups_) split(group, buckets);
    return buckets;
  }

 private:
  Members& group_of(std::size_t parameter) {
    for (Members& group : groups_) {
      const BucketedParameter& first = parameters_[group.front()];
      const BucketedParameter& one = parameters_[parameter];
      if (first.unit == one.unit && first.in_eight_bits == one.in_eight_bits) return group;
    }
    return groups_.emplace_back();
  }

  void split(const Members& group, std::vector<Members>& buckets) const {
    Members bucket;
    std::int64_t elements = 0;
    for (const std::size_t parameter : group) {
      bucket.push_back(parameter);
      elements = checked_add(elements, parameters_[parameter].elements);
      if (parameters_[parameter].unit || elements < full_) continue;
      buckets.push_back(std::move(bucket));
      bucket = {};
      elements = 0;
    }
    if (!bucket.empty()) buckets.push_back(std::move(bucket));
  }

  const std::vector<BucketedParameter>& parameters_;
  std::int64_t full_;
  std::vector<Members> groups_;
};

/// Step 3: a grid whose cells hold whole rows. The widest rows come first: of [4096, 14336] and
/// [6144, 4096] a cell is lcm(14336, 4096) = 28672 elements.
std::int64_t grid_of(const Members& sorted, const std::vector<BucketedParameter>& parameters) {
  std::int64_t grid = parameters[sorted.front()].row_elements;
  for (const std::size_t i : sorted) {
    const BucketedParameter& one = parameters[i];
    const bool whole = grid % one.row_elements == 0 && one.elements % grid == 0;
    if (one.row_elements == grid || whole || one.elements < grid) continue;
    grid = std::lcm(grid, one.row_elements);
  }
  return grid;
}

/// build_data_parallel_buffer_index: parameters begin on the grid; what two leave of a cell may be
/// one cell, and parameters smaller than one fill what is left.
class Grid {
 public:
  Grid(const Members& members, const std::vector<BucketedParameter>& parameters, std::int64_t cell)
      : parameters_(parameters), cell_(cell) {
    for (const std::size_t i : members) {
      (elements(i) < cell ? fragments_ : regular_).push_back(i);
    }
  }

  void place() {
    while (!regular_.empty()) place_next();
    for (const std::size_t i : fragments_) {
      put(i, at_);
      at_ += elements(i);
    }
  }
  [[nodiscard]] const std::vector<UnitBucket::Placed>& placed() const { return placed_; }
  [[nodiscard]] std::int64_t end() const { return at_; }

 private:
  [[nodiscard]] std::int64_t elements(std::size_t i) const { return parameters_[i].elements; }
  void put(std::size_t i, std::int64_t begin) { placed_.push_back({i, begin, elements(i)}); }

  void place_next() {
    const std::size_t first = regular_.front();
    regular_.erase(regular_.begin());
    put(first, at_);
    const std::int64_t rest = elements(first) % cell_;
    if (rest == 0) {
      at_ += elements(first);
      return;
    }
    std::int64_t gap = at_ + elements(first);
    at_ += (elements(first) / cell_ + 1) * cell_;
    std::int64_t space = cell_ - rest;
    const auto fits = [&](std::size_t i) {
      return elements(i) % cell_ != 0 && rest + elements(i) % cell_ <= cell_;
    };
    if (const auto right = std::find_if(regular_.begin(), regular_.end(), fits);
        right != regular_.end()) {
      put(*right, at_ - elements(*right) % cell_);
      space -= elements(*right) % cell_;
      at_ += elements(*right) / cell_ * cell_;
      regular_.erase(right);
    }
    std::erase_if(fragments_, [&](std::size_t i) {
      if (elements(i) > space) return false;
      put(i, gap);
      space -= elements(i);
      gap += elements(i);
      return true;
    });
  }

  const std::vector<BucketedParameter>& parameters_;
  std::int64_t cell_;
  Members regular_;
  Members fragments_;
  std::vector<UnitBucket::Placed> placed_;
  std::int64_t at_ = 0;
};

UnitBucket lay(Members members, const std::vector<BucketedParameter>& parameters,
               std::int64_t ranks) {
  std::stable_sort(members.begin(), members.end(), [&](std::size_t left, std::size_t right) {
    return parameters[left].row_elements > parameters[right].row_elements;
  });
  const std::int64_t cell = grid_of(members, parameters);
  Grid grid(members, parameters, cell);
  grid.place();
  UnitBucket bucket;
  bucket.unit = parameters[members.front()].unit;
  bucket.in_eight_bits = parameters[members.front()].in_eight_bits;
  bucket.placed = grid.placed();
  const std::int64_t whole = checked_multiply(cell, ranks);
  bucket.elements = checked_multiply((grid.end() + whole - 1) / whole, whole);
  bucket.share = bucket.elements / ranks;
  // Weights are copied into the buffer in the group's order, not in that of the places.
  const auto rank_of = [&](std::size_t i) {
    return std::find(members.begin(), members.end(), i) - members.begin();
  };
  std::sort(bucket.placed.begin(), bucket.placed.end(), [&](const auto& left, const auto& right) {
    return rank_of(left.parameter) < rank_of(right.parameter);
  });
  return bucket;
}

}  // namespace

std::int64_t UnitBucket::in_share(const Placed& one, std::int64_t rank) const {
  const std::int64_t begin = std::max(one.begin, rank * share);
  const std::int64_t end = std::min(one.begin + one.elements, (rank + 1) * share);
  return std::max<std::int64_t>(end - begin, 0);
}

std::vector<UnitBucket> unit_buckets(const std::vector<BucketedParameter>& parameters,
                                     const BucketRules& rules) {
  std::vector<UnitBucket> buckets;
  for (Members& members : BucketGroups(parameters, rules.full).collect()) {
    buckets.push_back(lay(std::move(members), parameters, rules.ranks));
  }
  return buckets;
}

}  // namespace memest
