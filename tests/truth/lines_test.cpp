// Every line of lines.yaml over every recorded run of this folder: what `memest validate` asks.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "memest/plan/validation.hpp"
#include "memest/reader/accuracy.hpp"
#include "memest/reader/record.hpp"
#include "memest/report/diagnostics.hpp"

namespace memest {
namespace {

std::vector<std::string> record_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(MEMEST_TRUTH_FOLDER)) {
    const std::string path = entry.path().string();
    if (path.ends_with(".records.jsonl")) files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<ValidatedRun> validated_runs() {
  std::vector<ValidatedRun> runs;
  for (const std::string& file : record_files()) {
    INFO(file);
    const auto records = read_records(file);
    REQUIRE(records.ok());
    for (const Record& record : records.value()) {
      if (record.job) runs.push_back(validate_run(record.id, *record.job, record.measured));
    }
  }
  return runs;
}

TEST_CASE("every line holds over the recorded runs, and every known miss still misses") {
  const auto lines = read_accuracy_lines(MEMEST_TRUTH_FOLDER "/lines.yaml");
  REQUIRE(lines.ok());
  CHECK(render(hold_to_lines(validated_runs(), lines.value()), {}) == "");
}

}  // namespace
}  // namespace memest
