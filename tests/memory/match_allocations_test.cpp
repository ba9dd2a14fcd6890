// Allocations of a prediction and a record, one to one in their order.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <vector>

#include "memest/memory/timeline_difference.hpp"

namespace memest {
namespace {

using Sizes = std::vector<std::int64_t>;

Timeline timeline_of(const Sizes& sizes) {
  Timeline timeline;
  for (const std::int64_t size : sizes) {
    timeline.events.push_back(
        {EventKind::allocate, static_cast<StorageId>(timeline.storages.size())});
    timeline.storages.push_back({size, {}});
  }
  return timeline;
}

AllocatorTrace trace_of(const Sizes& sizes) {
  AllocatorTrace trace;
  for (const std::int64_t size : sizes) {
    TraceEvent event;
    event.number = trace.allocations++;
    event.size = Bytes(size);
    trace.events.push_back(event);
  }
  return trace;
}

AllocationMatch match_of(const Sizes& predicted, const Sizes& recorded) {
  return match_allocations(timeline_of(predicted), trace_of(recorded));
}

/// The fewest allocations left unmatched up to where either side ends, by trying all ways.
std::size_t fewest_unmatched(const Sizes& predicted, const Sizes& recorded) {
  const std::size_t rows = predicted.size();
  const std::size_t columns = recorded.size();
  std::vector<std::vector<std::size_t>> cost(rows + 1, std::vector<std::size_t>(columns + 1));
  std::size_t best = rows + columns;
  for (std::size_t x = 0; x <= rows; ++x) {
    for (std::size_t y = 0; y <= columns; ++y) {
      std::size_t& here = cost[x][y];
      here = x + y == 0 ? 0 : rows + columns;
      if (x > 0) here = std::min(here, cost[x - 1][y] + 1);
      if (y > 0) here = std::min(here, cost[x][y - 1] + 1);
      if (x > 0 && y > 0 && predicted[x - 1] == recorded[y - 1]) {
        here = std::min(here, cost[x - 1][y - 1]);
      }
      if (x == rows || y == columns) best = std::min(best, here);
    }
  }
  return best;
}

std::size_t sides_of(const AllocationMatch& match) {
  std::size_t count = 0;
  for (const UnmatchedAllocation& row : match.unmatched) {
    count += row.predicted != kNoStorage ? 1 : 0;
    count += row.recorded != UnmatchedAllocation::kNone ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("equal sequences match whole", "[match]") {
  const AllocationMatch match = match_of({8, 16, 8}, {8, 16, 8});
  CHECK(match.matched == 3);
  CHECK(match.unmatched.empty());
  CHECK(match.predicted_after + match.recorded_after == 0);
}

TEST_CASE("one that a side alone has does not shift the others", "[match]") {
  const AllocationMatch more = match_of({8, 16, 32, 64}, {8, 16, 99, 32, 64});
  CHECK(more.matched == 4);
  REQUIRE(more.unmatched.size() == 1);
  CHECK(more.unmatched[0].predicted == kNoStorage);
  CHECK(more.unmatched[0].recorded == 2);
  const AllocationMatch less = match_of({8, 16, 32, 64}, {8, 32, 64});
  CHECK(less.matched == 3);
  REQUIRE(less.unmatched.size() == 1);
  CHECK(less.unmatched[0].predicted == 1);
  CHECK(less.unmatched[0].recorded == UnmatchedAllocation::kNone);
}

TEST_CASE("one of another size stands beside its counterpart", "[match]") {
  const AllocationMatch match = match_of({8, 16, 32}, {8, 24, 32});
  CHECK(match.matched == 2);
  REQUIRE(match.unmatched.size() == 1);
  CHECK(match.unmatched[0].predicted == 1);
  CHECK(match.unmatched[0].recorded == 1);
}

TEST_CASE("what comes after either side's end is counted, not held against the other", "[match]") {
  CHECK(match_of({8, 16}, {8, 16, 8, 16}).recorded_after == 2);
  CHECK(match_of({8, 16}, {8, 16, 8, 16}).unmatched.empty());
  CHECK(match_of({8, 16, 32}, {8}).predicted_after == 2);
  CHECK(match_of({}, {8}).recorded_after == 1);
}

TEST_CASE("a record that began late is matched from where it begins", "[match]") {
  AllocatorTrace late = trace_of({1, 2, 3, 1, 2});
  late.earlier.count = 2;
  const AllocationMatch match = match_allocations(timeline_of({7, 9, 1, 5, 1, 2, 3, 1, 2}), late);
  CHECK(match.predicted_before == 4);
  CHECK(match.matched == 5);
  CHECK(match.unmatched.empty());
}

TEST_CASE("sequences with nothing in common are given up, and say so", "[match]") {
  Sizes predicted(3000);
  Sizes recorded(3000);
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    predicted[i] = static_cast<std::int64_t>(2 * i);
    recorded[i] = static_cast<std::int64_t>(2 * i + 1);
  }
  const AllocationMatch match = match_of(predicted, recorded);
  CHECK(match.given_up);
  CHECK(match.matched == 0);
  CHECK(sides_of(match) == 2000);
}

TEST_CASE("drawn sequences leave the fewest unmatched, and none is lost", "[match]") {
  std::mt19937 random(7);  // NOLINT: the same draws every time
  for (int round = 0; round < 500; ++round) {
    const auto draw = [&random] {
      Sizes sizes(random() % 14);
      for (std::int64_t& size : sizes) size = static_cast<std::int64_t>(random() % 4 + 1);
      return sizes;
    };
    const Sizes predicted = draw();
    const Sizes recorded = draw();
    const AllocationMatch match = match_of(predicted, recorded);
    CHECK_FALSE(match.given_up);
    CHECK(sides_of(match) == fewest_unmatched(predicted, recorded));
    CHECK(2 * match.matched + sides_of(match) + match.predicted_after + match.recorded_after ==
          predicted.size() + recorded.size());
    std::int64_t last = -1;
    for (const UnmatchedAllocation& row : match.unmatched) {
      if (row.recorded == UnmatchedAllocation::kNone) continue;
      CHECK(row.recorded > last);
      last = row.recorded;
    }
  }
}

}  // namespace memest
