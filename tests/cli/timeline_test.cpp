// The files of `memest timeline`: each is read back by another reader and held to the answer.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "../page_data.hpp"
#include "shell.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

const std::string kSpec = "tests/golden/timeline.yaml";

/// A folder that goes away with the test.
struct Scratch {
  Scratch() { std::filesystem::create_directories(path); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string file(const char* name) const { return (path / name).string(); }

  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("memest-timeline-" + std::to_string(getpid()));
};

json answer_of(const std::string& spec) {
  return json::parse(run_shell("memest timeline " + spec + " --format json").out);
}

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// A cell of a line without quoted cells, counted from the end.
std::int64_t number_from_end(const std::string& line, int cell) {
  std::string rest = line;
  for (; cell > 0; --cell) rest.erase(rest.rfind(','));
  return std::stoll(rest.substr(rest.rfind(',') + 1));
}

TEST_CASE("the table has a row an event, and the answer's peaks are its own") {
  const Scratch scratch;
  const Ran ran = run_shell("memest timeline " + kSpec + " --csv '" + scratch.file("t.csv") + "'");
  CHECK(ran.code == 0);
  const std::string table = file_text(scratch.file("t.csv"));
  CHECK(run_shell("memest timeline " + kSpec + " --format csv").out == table);
  const std::vector<std::string> lines = lines_in(table);
  const json answer = answer_of(kSpec);
  REQUIRE(lines.size() == answer["events"].get<std::size_t>() + 1);
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    allocated = std::max(allocated, number_from_end(lines[i], 2));
    reserved = std::max(reserved, number_from_end(lines[i], 1));
    CHECK(number_from_end(lines[i], 2) <= number_from_end(lines[i], 1));
  }
  CHECK(allocated == answer["allocated_peak_bytes"]);
  CHECK(reserved == answer["reserved_peak_bytes"]);
  const std::size_t peak = answer["peak"]["event"].get<std::size_t>() + 1;
  CHECK(number_from_end(lines[peak], 2) == allocated);
}

TEST_CASE("Python reads the snapshot, and it is the table's events") {
  if (run_shell("python3 --version").code != 0) SKIP("this test needs python3");
  const std::string settings =
      GENERATE("", " --set allocator.max_split_size_mb=64", " --set training.recompute=full");
  const Scratch scratch;
  const Ran written =
      run_shell("memest timeline " + kSpec + settings + " --snapshot '" + scratch.file("s.pickle") +
                "' --csv '" + scratch.file("t.csv") + "'");
  INFO(settings << '\n' << written.err);
  REQUIRE(written.code == 0);
  const Ran read = run_shell("python3 tests/cli/snapshot_test.py '" + scratch.file("s.pickle") +
                             "' '" + scratch.file("t.csv") + "'");
  INFO(read.err);
  CHECK(read.code == 0);
  const auto peak = answer_of(kSpec + settings)["requested_peak_bytes"].get<std::int64_t>();
  CHECK(read.out == "peak of what is requested: " + std::to_string(peak) + "\n");
}

TEST_CASE("the trace's slices nest, and its counter has the peak") {
  const Scratch scratch;
  const std::string file = scratch.file("t.json");
  REQUIRE(run_shell("memest timeline " + kSpec + " --trace '" + file + "'").code == 0);
  const json trace = json::parse(file_text(file));
  struct Slice {
    std::int64_t begin;
    std::int64_t end;
  };
  std::vector<Slice> slices;
  std::int64_t peak = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") {
      const auto begin = event["ts"].get<std::int64_t>();
      slices.push_back({begin, begin + event["dur"].get<std::int64_t>()});
    } else if (event["ph"] == "C" && event["name"] == "allocated") {
      peak = std::max(peak, event["args"]["bytes"].get<std::int64_t>());
    }
  }
  CHECK(peak == answer_of(kSpec)["allocated_peak_bytes"]);
  CHECK(slices.size() > 100);
  std::stable_sort(slices.begin(), slices.end(), [](const Slice& left, const Slice& right) {
    return left.begin != right.begin ? left.begin < right.begin : left.end > right.end;
  });
  std::vector<Slice> open;
  for (const Slice& slice : slices) {
    while (!open.empty() && open.back().end <= slice.begin) open.pop_back();
    if (!open.empty()) CHECK(slice.end <= open.back().end);
    open.push_back(slice);
  }
}

TEST_CASE("the page holds every event, beside the answer as by itself") {
  const Scratch scratch;
  const std::string file = scratch.file("t.html");
  REQUIRE(run_shell("memest timeline " + kSpec + " --html '" + file + "'").code == 0);
  const json charts = data_in(file_text(file))["charts"];
  if (charts.empty()) SKIP("this memest was built without the library of charts");
  const json& data = charts[0];
  const json answer = answer_of(kSpec);
  CHECK(data["events"].size() == answer["events"].get<std::size_t>());
  std::int64_t allocated = 0;
  std::int64_t peak = 0;
  for (const json& event : data["events"]) {
    const auto number = event.get<std::int64_t>();
    const auto storage = static_cast<std::size_t>(number < 0 ? -number - 1 : number);
    const auto bytes = data["bytes"][storage].get<std::int64_t>();
    allocated += number < 0 ? -bytes : bytes;
    peak = std::max(peak, allocated);
  }
  CHECK(peak == answer["allocated_peak_bytes"]);
  CHECK(data["peak"] == answer["peak"]["event"]);
}

TEST_CASE("where memory runs out every file ends there, and says so") {
  const Scratch scratch;
  const std::string spec = kSpec + " --set hardware.memory='24 MiB'";
  const Ran ran =
      run_shell("memest timeline " + spec + " --snapshot '" + scratch.file("s") + "' --trace '" +
                scratch.file("t") + "' --html '" + scratch.file("h") + "'");
  CHECK(ran.code == 1);
  CHECK_THAT(ran.out, ContainsSubstring("Out of memory: "));
  CHECK_THAT(file_text(scratch.file("s")), ContainsSubstring("oom"));
  const auto events = lines_in(run_shell("memest timeline " + spec + " --format csv").out);
  CHECK(static_cast<std::int64_t>(events.size()) - 1 ==
        answer_of(spec)["out_of_memory"]["event"].get<std::int64_t>());
}

TEST_CASE("a timeline's mistakes have the exit codes of every command") {
  CHECK(run_shell("memest timeline " + kSpec + " --against no/such.trace").code == 3);
  CHECK(run_shell("memest timeline " + kSpec + " --snapshot no/such/folder/file").code == 3);
  const Ran bad = run_shell("memest timeline " + kSpec + " --against tests/golden/timeline.yaml");
  CHECK(bad.code == 2);
  CHECK(bad.out.empty());
  CHECK_THAT(bad.err, ContainsSubstring("tests/golden/timeline.yaml:1:1: error: "));
  const Ran unavailable = run_shell("memest timeline bert-base");
  CHECK(unavailable.code == 4);
  CHECK_THAT(unavailable.err, ContainsSubstring("error: "));
  CHECK_THAT(run_shell("memest timeline " + kSpec + " --snapshto x").err,
             ContainsSubstring("did you mean '--snapshot'?"));
}

TEST_CASE("a record that is equal is a yes, one that is not a no that names the line") {
  const std::string record = "tests/truth/steps/accumulated.trace.gz";
  const Ran equal = run_shell("memest timeline " + kSpec + " --against " + record);
  CHECK(equal.code == 0);
  CHECK_THAT(equal.out, ContainsSubstring(record + ": equal: "));
  const Ran other =
      run_shell("memest timeline " + kSpec + " --set training.micro_batch=1 --against " + record);
  CHECK(other.code == 1);
  CHECK_THAT(other.out, ContainsSubstring(record + ":"));
  CHECK_THAT(other.out, ContainsSubstring("predicted: "));
}

}  // namespace
}  // namespace memest
