// What `memest record` prints of a run: its phases, its reads, and which device a part is of.
#include "memest/report/record_report.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstddef>
#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr std::int64_t kMiB = std::int64_t{1} << 20U;

/// A marker at which 100 MiB are allocated.
TraceMarker marker(const std::string& name, std::int64_t reserved_peak_mib) {
  TraceMarker marker;
  marker.name = name;
  const auto set = [&marker](TracedStatistic statistic, std::int64_t mib) {
    marker.statistics[static_cast<std::size_t>(statistic)] = mib * kMiB;
  };
  set(TracedStatistic::allocated_bytes, 100);
  set(TracedStatistic::reserved_bytes, reserved_peak_mib);
  set(TracedStatistic::allocated_peak, 150);
  set(TracedStatistic::reserved_peak, reserved_peak_mib);
  return marker;
}

/// Forward, backward and optimizer of each step; most is reserved from `reserved_in` on.
ProgramRun run_of(int steps, int reserved_in, const std::string& peak_phase) {
  ProcessRun process;
  for (int step = 1; step <= steps; ++step) {
    for (const char* phase : {".forward", ".backward", ".optimizer"}) {
      process.recording.trace.markers.push_back(
          marker("step" + std::to_string(step) + phase, step < reserved_in ? 200 : 300));
    }
  }
  process.recording.trace.markers.push_back(
      marker("step" + std::to_string(steps + 1) + ".unfinished", 300));
  process.peak.phase = peak_phase;
  ProgramRun program;
  program.gpu = "NVIDIA H100";
  program.processes.push_back(process);
  return program;
}

std::string text_of_run(const ProgramRun& program) {
  return text_of(report_recording(program, {}).page, {});
}

/// Without its line breaks.
std::string in_a_line(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

/// The first words of the lines that tell of phases.
std::vector<std::string> told_phases(const ProgramRun& program) {
  std::istringstream lines(text_of_run(program));
  std::vector<std::string> told;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    std::string second;
    words >> first >> second;
    if (first.starts_with("step")) told.push_back(first);
    if (second == "phases" || second == "phase") told.push_back(first + " left out");
  }
  return told;
}

TEST_CASE("ten phases are all told, and what follows the last step is not") {
  CHECK(told_phases(run_of(3, 1, "step2.backward")).size() == 9);
}

TEST_CASE("of many phases the first step's, the last's and those of the peaks are told") {
  const std::vector<std::string> expected = {
      "step1.forward",  "step1.backward",  "step1.optimizer", "9 left out",
      "step5.forward",  "step5.backward",  "step5.optimizer", "3 left out",
      "step7.forward",  "step7.backward",  "step7.optimizer", "9 left out",
      "step11.forward", "step11.backward", "step11.optimizer"};
  CHECK(told_phases(run_of(11, 5, "step7.backward")) == expected);
}

TEST_CASE("of a step of many micro-batches its ends are told, and the phase that reserved most") {
  ProgramRun program = run_of(1, 1, "step1.backward");
  std::vector<TraceMarker>& markers = program.processes[0].recording.trace.markers;
  markers.clear();
  for (int batch = 0; batch < 20; ++batch) {
    markers.push_back(marker("step1.forward", 200));
    markers.push_back(marker("step1.backward", batch < 10 ? 200 : 300));
  }
  program.processes[0].peak.phase = "step1.backward";
  const std::vector<std::string> expected = {"step1.forward",  "step1.backward", "step1.forward",
                                             "18 left out",    "step1.backward", "15 left out",
                                             "step1.backward", "step1.forward",  "step1.backward"};
  CHECK(told_phases(program) == expected);
}

TEST_CASE("reads of one line are told once, with the value that it was told most often") {
  ProgramRun program = run_of(1, 1, "step1.backward");
  program.processes[0].recording.reads = {{3, Bytes(4), 0, "train.py:9 main"},
                                          {2, Bytes(1), 1, "train.py:4 main"},
                                          {40, Bytes(8), 7, "train.py:9 main"},
                                          {1, Bytes(8), 9, "train.py:9 main"}};
  const std::string text = in_a_line(text_of_run(program));
  CHECK_THAT(text, ContainsSubstring("44 times at train.py:9 main (8 B told 7, and other values)"));
  CHECK_THAT(text, ContainsSubstring("2 times at train.py:4 main (1 B told 1)"));
  CHECK_THAT(report_recording(program, {}).json, ContainsSubstring("\"count\": 3"));
}

TEST_CASE("each device of a process is named where it used several") {
  ProgramRun program = run_of(1, 1, "step1.backward");
  CHECK_THAT(text_of_run(program), !ContainsSubstring("device 1"));
  program.processes.push_back(program.processes[0]);
  program.processes[0].device = UsedDevice{0, 1, 2};
  program.processes[1].device = UsedDevice{3, 2, 2};
  for (ProcessRun& process : program.processes) process.peak.places = {{"a.py:1", 1, Bytes(512)}};
  const Report report = report_recording(program, {});
  CHECK_THAT(text_of(report.page, {}), ContainsSubstring("device 1 of 2 (cuda:0): "));
  CHECK_THAT(text_of(report.page, {}), ContainsSubstring("device 2 of 2 (cuda:3): "));
  CHECK_THAT(report.json, ContainsSubstring("\"device\": \"2 of 2\""));
  CHECK_THAT(report.json, ContainsSubstring("\"device_index\": 3"));
  REQUIRE(report.records.rows.size() == 2);
  CHECK(report.records.rows[1].cells[1] == "2 of 2");
}

}  // namespace
}  // namespace memest
