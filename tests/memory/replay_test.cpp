#include "memest/memory/replay.hpp"

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "memest/reader/read_trace.hpp"

namespace memest {
namespace {

/// A device of 100 MiB, half of which may be reserved.
ReplayResult replay_of(const std::string& lines,
                       SegmentAddresses addresses = SegmentAddresses::recorded) {
  const std::string head =
      "# allocator trace 1\n# total: 104857600\n# capacity: 52428800\n";  // lines 1 to 3
  const Checked<AllocatorTrace> trace =
      read_trace(std::make_shared<const SourceText>(SourceText{"t.trace", head + lines}));
  REQUIRE(trace.ok());
  return replay(trace.value(), addresses);
}

constexpr const char* kGood =
    "S 1000000 20971520 0\n"
    "a 0 2097152 0\n"
    "a 1 4194304 0\n"
    "l 0\n"
    "S 9000000 31457280 0\n"
    "a 2 31457280 0\n"
    "o 40000000 0\n"
    "f 2\n"
    "= middle allocated_bytes=6291456 reserved_bytes=52428800 ooms=1 retries=1\n"
    "e\n"
    "s 9000000 31457280 0\n"
    "f 0\n"
    "= end segments=1 active=1 inactive_split=2\n";

}  // namespace

TEST_CASE("a replay compares statistics and segments", "[replay]") {
  const ReplayResult result = replay_of(kGood);
  CHECK_FALSE(result.difference.has_value());
  CHECK(result.markers.size() == 2);
  CHECK(result.statistics == 7);
  CHECK(result.segment_events == 3);
  CHECK(result.requests == 6);
  CHECK(result.end.out_of_memory == 1);
}

TEST_CASE("a replay names the first difference", "[replay]") {
  const auto difference_of = [](const std::string& lines) {
    const ReplayResult result = replay_of(lines);
    REQUIRE(result.difference.has_value());
    return std::to_string(result.difference->line) + " " + result.difference->place + ": " +
           result.difference->replayed + " / " + result.difference->recorded;
  };
  const std::string first = "S 1000000 20971520 0\na 0 2097152 0\n";
  SECTION("a statistic") {
    CHECK(difference_of(first + "= m active=1 retries=3 segments=1\n") ==
          "6 marker 'm', retries: 0 / 3");
  }
  SECTION("a segment of another size, or none") {
    CHECK(difference_of("S 1000000 2097152 0\na 0 2097152 0\n") ==
          "4 segments: S 1000000 20971520 0 / S 1000000 2097152 0");
    CHECK(difference_of("a 0 2097152 0\n") ==
          "4 segments: S 4000000000000000 20971520 0 / nothing");
    CHECK(difference_of(first + "S 5000000 20971520 0\na 1 100 0\n") ==
          "6 segments: S 5000000 2097152 0 / S 5000000 20971520 0");
    CHECK(difference_of(first + "S 5000000 20971520 0\na 1 2097152 0\n") ==
          "6 segments: nothing / S 5000000 20971520 0");
    CHECK(difference_of(first + "f 0\ns 1000000 20971520 0\n") ==
          "7 segments: nothing / s 1000000 20971520 0");
    CHECK(difference_of(first + "f 0\ne\n") == "7 segments: s 1000000 20971520 0 / nothing");
  }
  SECTION("segments in one place") {
    CHECK(difference_of(first + "S 1000000 2097152 0\na 1 100 0\n") ==
          "6 segments: S 4000000000000000 2097152 0 / S 1000000 2097152 0");
  }
  SECTION("out of memory, or not") {
    CHECK(difference_of(first + "a 1 41943040 0\n") ==
          "6 allocation of 41,943,040 B: out of memory / a block");
    CHECK(difference_of(first + "o 2097152 0\n") ==
          "6 allocation of 2,097,152 B: a block / out of memory");
  }
}

TEST_CASE("predicted addresses are compared from the first segment on", "[replay]") {
  const std::string lines =
      "S 7000000000 20971520 0\na 0 2097152 0\nS 7001400000 2097152 0\na 1 100 0\n";
  CHECK_FALSE(replay_of(lines, SegmentAddresses::predicted).difference.has_value());
  const std::string elsewhere =
      "S 7000000000 20971520 0\na 0 2097152 0\nS 8001400000 2097152 0\na 1 100 0\n";
  CHECK_FALSE(replay_of(elsewhere).difference.has_value());
  CHECK(replay_of(elsewhere, SegmentAddresses::predicted).difference->replayed ==
        "S 7001400000 2097152 0");
}

}  // namespace memest
