// Where a prediction and a record part.
#include "memest/memory/timeline_difference.hpp"

#include <catch2/catch_test_macros.hpp>

namespace memest {
namespace {

/// Two storages of 8 and 16 bytes, made in order and freed in that order.
Timeline two_storages() {
  Timeline timeline;
  timeline.storages = {{8, {}}, {16, {}}};
  timeline.events = {{EventKind::allocate, 0},
                     {EventKind::allocate, 1},
                     {EventKind::free, 0},
                     {EventKind::free, 1}};
  return timeline;
}

TraceEvent event(TraceEventKind kind, std::int64_t number, std::int64_t size = 0) {
  TraceEvent made;
  made.kind = kind;
  made.number = number;
  made.size = Bytes(size);
  made.line = static_cast<std::int32_t>(10 + number);
  return made;
}

AllocatorTrace trace_of(std::vector<TraceEvent> events) {
  AllocatorTrace trace;
  trace.events = std::move(events);
  return trace;
}

constexpr TraceEventKind kMade = TraceEventKind::allocate;
constexpr TraceEventKind kFreed = TraceEventKind::free;

TEST_CASE("the order of frees between two allocations does not count", "[timeline]") {
  CHECK_FALSE(first_difference(two_storages(), trace_of({event(kMade, 0, 8), event(kMade, 1, 16),
                                                         event(kFreed, 1), event(kFreed, 0)})));
}

TEST_CASE("a size that differs is named with its event and line", "[timeline]") {
  const auto difference =
      first_difference(two_storages(), trace_of({event(kMade, 0, 8), event(kMade, 1, 24)}));
  REQUIRE(difference);
  CHECK(difference->kind == TimelineDifference::Kind::size);
  CHECK(difference->event == 1);
  CHECK(difference->line == 11);
  CHECK(difference->recorded_bytes == 24);
  CHECK(difference->predicted == 1);
}

TEST_CASE("streams are told apart by the order in which they appear", "[timeline]") {
  Timeline timeline = two_storages();
  timeline.storages[1].stream = Stream::reduce_scatter;
  std::vector<TraceEvent> events = {event(kMade, 0, 8), event(kMade, 1, 16), event(kFreed, 0),
                                    event(kFreed, 1)};
  const auto difference = first_difference(timeline, trace_of(events));
  REQUIRE(difference);
  CHECK(difference->kind == TimelineDifference::Kind::stream);
  CHECK(difference->event == 1);
  events[1].stream = 1;
  CHECK_FALSE(first_difference(timeline, trace_of(events)));
}

TEST_CASE("what only one of both frees is named", "[timeline]") {
  const auto difference = first_difference(
      two_storages(), trace_of({event(kMade, 0, 8), event(kMade, 1, 16), event(kFreed, 1)}));
  REQUIRE(difference);
  CHECK(difference->kind == TimelineDifference::Kind::freed);
  CHECK(difference->freed_by_record.empty());
  CHECK(difference->freed_by_prediction == std::vector<StorageId>{0});
}

TEST_CASE("a record that goes on is a difference, one that ran out of memory is none",
          "[timeline]") {
  const auto longer = first_difference(
      two_storages(), trace_of({event(kMade, 0, 8), event(kMade, 1, 16), event(kFreed, 0),
                                event(kFreed, 1), event(kMade, 2, 32)}));
  REQUIRE(longer);
  CHECK(longer->kind == TimelineDifference::Kind::allocate);
  CHECK_FALSE(first_difference(
      two_storages(),
      trace_of({event(kMade, 0, 8), event(TraceEventKind::out_of_memory, 0, 512)})));
}

}  // namespace
}  // namespace memest
