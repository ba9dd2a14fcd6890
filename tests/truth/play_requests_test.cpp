// A recorded trace's requests under other settings or another memory.
#include "memest/memory/play_requests.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>

#include "memest/memory/replay.hpp"
#include "memest/reader/read_trace.hpp"

namespace memest {
namespace {

constexpr Bytes kMiB(std::int64_t{1} << 20U);

AllocatorTrace recorded(const char* name) {
  return read_trace(std::string(MEMEST_TRUTH_FOLDER) + "/../record/" + name).value();
}

TEST_CASE("played as they were recorded, the requests reserve what was recorded") {
  const AllocatorTrace trace = recorded("trained.memrec.gz");
  const PlayedTrace played = play_requests(trace, trace.settings, trace.available());
  const ReplayResult replayed = replay(trace);
  REQUIRE_FALSE(replayed.difference);
  CHECK_FALSE(played.failed);
  CHECK(played.end.allocated.peak == replayed.end.allocated.peak);
  CHECK(played.end.reserved.peak == replayed.end.reserved.peak);
}

TEST_CASE("the request that failed fails where it did, and is granted by a larger device") {
  const AllocatorTrace trace = recorded("ran_out.memrec.gz");
  const PlayedTrace same = play_requests(trace, trace.settings, trace.available());
  REQUIRE(same.failed);
  CHECK(trace.events[*same.failed].kind == TraceEventKind::out_of_memory);
  CHECK(same.end.out_of_memory == 1);
  AllocatorTrace larger = trace;
  larger.device_memory = trace.device_memory * 2;
  const PlayedTrace granted = play_requests(larger, trace.settings, larger.available());
  CHECK_FALSE(granted.failed);
  CHECK(granted.end.allocated.peak > same.end.allocated.peak);
}

TEST_CASE(
    "no device that is smaller than what is allocated grants all, one as large as reserved does") {
  const AllocatorTrace trace = recorded("trained.memrec.gz");
  const PlayedTrace whole = play_requests(trace, trace.settings, trace.available());
  const Bytes allocated = whole.end.allocated.peak;
  for (const bool expandable : {false, true}) {
    AllocatorSettings settings = trace.settings;
    settings.expandable_segments = expandable;
    CHECK(play_requests(trace, settings, allocated - Bytes(512)).failed);
    const Bytes reserved = play_requests(trace, settings, trace.available()).end.reserved.peak;
    CHECK_FALSE(play_requests(trace, settings, reserved).failed);
    CHECK(reserved - allocated < kMiB * 32);
  }
}

}  // namespace
}  // namespace memest
