#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "memest/diag/environment.hpp"
#include "memest/reader/read_trace.hpp"

namespace memest {
namespace {

Checked<AllocatorTrace> read_text(const std::string& text) {
  return read_trace(std::make_shared<const SourceText>(SourceText{"t.trace", text}));
}

AllocatorTrace trace_of(const std::string& lines) {
  return read_text("# allocator trace 1\n# total: 1000000000\n" + lines).value();
}

std::string first_error(const std::string& lines) {
  const Checked<AllocatorTrace> trace =
      read_text("# allocator trace 1\n# total: 1000000000\n" + lines);
  return trace.ok() ? "ok" : trace.diagnostics().front().message;
}

}  // namespace

TEST_CASE("a trace is its head, its events and its markers") {
  const AllocatorTrace trace = trace_of(
      "# case: v1\n# device: NVIDIA H200\n# capacity: 500000000\n"
      "# conf: max_split_size_mb:128, expandable_segments:True,pinned_num_register_threads:4\n"
      "S 7f0000000000 2097152 1\n"
      "a 5 512 1\n"
      "l 3\n"
      "q 5\r\n"
      "f 5\n"
      "= forward segments=1 retries=0\n"
      "e\n");
  CHECK(trace.name == "v1");
  CHECK(trace.device_memory == Bytes(1'000'000'000));
  CHECK(trace.capacity == Bytes(500'000'000));
  CHECK(trace.settings.max_split_size == Bytes(128 * kMiB));
  CHECK(trace.settings.expandable_segments);
  CHECK(trace.allocations == 1);
  REQUIRE(trace.events.size() == 7);
  CHECK(trace.events[0].kind == TraceEventKind::segment_obtained);
  CHECK(trace.events[0].number == 0x7f0000000000);
  CHECK(trace.events[0].line == 7);
  CHECK(trace.events[1].number == 0);  // the first allocation, whatever its ID
  CHECK(trace.events[1].size == Bytes(512));
  CHECK(trace.events[1].stream == 1);
  CHECK(trace.events[2].number == 3);
  CHECK(trace.events[3].kind == TraceEventKind::free_when_done);
  CHECK(trace.events[4].number == 0);
  REQUIRE(trace.markers.size() == 1);
  CHECK(trace.markers[0].name == "forward");
  CHECK(trace.markers[0].statistics[static_cast<std::size_t>(TracedStatistic::segments)] == 1);
  CHECK_FALSE(
      trace.markers[0].statistics[static_cast<std::size_t>(TracedStatistic::active)].has_value());
}

TEST_CASE("settings that are not set are PyTorch's own") {
  CHECK(trace_of("# conf: default\n").settings == AllocatorSettings());
  CHECK(trace_of("# conf:\n").settings == AllocatorSettings());
  CHECK(trace_of("# capacity: none\n").capacity == std::nullopt);
  RoundingDivisions divisions{};
  divisions[0] = 0;
  for (std::size_t i = 1; i < kRoundingClasses; ++i) divisions[i] = 2;
  CHECK(trace_of("# conf: roundup_power2_divisions:[>:2]\n").settings.roundup_power2_divisions ==
        divisions);
}

TEST_CASE("numbers beyond any device are refused") {
  CHECK(first_error("a 0 9223372036854775807 0\n") ==
        "expected a size in bytes, not '9223372036854775807'");
  CHECK(first_error("a 0 99999999999999999999 0\n") ==
        "expected a size in bytes, not '99999999999999999999'");
  CHECK(first_error("a 0 512 1001\n") == "expected the number of a stream, not '1001'");
  CHECK(first_error("S ffffffffffffffff 512 0\n") ==
        "expected a hexadecimal address, not 'ffffffffffffffff'");
}

TEST_CASE("a trace that is not there is the environment's failure") {
  CHECK_THROWS_AS(read_trace("no-such.trace.gz"), EnvironmentError);
  CHECK(read_trace(".").diagnostics().front().message == "this is a directory");
}

}  // namespace memest
