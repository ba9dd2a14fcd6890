// Every recorded allocator trace, replayed to the same integers: statistics at every marker, out of
// memory at the same event, segments of the same sizes and in the same order at the same addresses,
// those of the trace or those that a prediction hands out.
#include "memest/memory/replay.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "memest/reader/read_trace.hpp"

namespace memest {
namespace {

std::vector<std::string> traces_of(const std::string& folder) {
  std::vector<std::string> paths;
  const std::filesystem::path whole = std::filesystem::path(MEMEST_TRUTH_FOLDER) / folder;
  for (const auto& entry : std::filesystem::directory_iterator(whole)) {
    if (entry.path().extension() == ".gz") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

void check_replay(const AllocatorTrace& trace, SegmentAddresses addresses) {
  const ReplayResult result = replay(trace, addresses);
  if (result.difference) {
    FAIL_CHECK("line " << result.difference->line << ": " << result.difference->place << ": "
                       << result.difference->replayed << ", recorded "
                       << result.difference->recorded);
  }
  CHECK(result.markers.size() == trace.markers.size());
  CHECK(result.statistics == static_cast<std::int64_t>(trace.markers.size() * kTracedStatistics));
  CHECK(result.segment_events ==
        std::count_if(trace.events.begin(), trace.events.end(),
                      [](const TraceEvent& event) { return is_segment_event(event.kind); }));
}

void check_traces(const std::string& folder, std::size_t count) {
  const std::vector<std::string> paths = traces_of(folder);
  CHECK(paths.size() == count);
  for (const std::string& path : paths) {
    INFO(path);
    const Checked<AllocatorTrace> trace = read_trace(path);
    REQUIRE(trace.ok());
    check_replay(trace.value(), SegmentAddresses::recorded);
    check_replay(trace.value(), SegmentAddresses::predicted);
  }
}

}  // namespace

TEST_CASE("traces of training runs replay to the same integers", "[replay]") {
  check_traces("traces", 14);
}

TEST_CASE("traces of random sequences replay to the same integers", "[replay]") {
  check_traces("synthetic", 24);
}

TEST_CASE("a random sequence ends with the statistics that its run reported", "[replay]") {
  const std::string folder = std::string(MEMEST_TRUTH_FOLDER) + "/synthetic/";
  std::ifstream file(folder + "statistics.csv");
  std::string title = "trace,seed";
  for (std::size_t i = 0; i < kTracedStatistics; ++i) {
    title += "," + std::string(name_of(static_cast<TracedStatistic>(i)));
  }
  std::string line;
  REQUIRE(std::getline(file, line));
  REQUIRE(line == title);
  std::size_t traces = 0;
  for (; std::getline(file, line); ++traces) {
    const std::string name = line.substr(0, line.find(','));
    INFO(name);
    const Checked<AllocatorTrace> trace = read_trace(folder + name);
    REQUIRE(trace.ok());
    std::string end;
    for (const std::int64_t value : traced(replay(trace.value()).end)) {
      end += "," + std::to_string(value);
    }
    CHECK(line.ends_with(end));
  }
  CHECK(traces == 24);
}

}  // namespace memest
