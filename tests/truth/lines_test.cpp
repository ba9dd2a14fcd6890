// Every line of lines.yaml over every recorded run of this folder: what `memest validate` asks.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "memest/plan/residuals.hpp"
#include "memest/plan/validation.hpp"
#include "memest/reader/accuracy.hpp"
#include "memest/reader/embedded_configs.hpp"
#include "memest/reader/record.hpp"
#include "memest/reader/residuals.hpp"
#include "memest/report/diagnostics.hpp"

namespace memest {
namespace {

std::vector<std::string> record_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(MEMEST_TRUTH_FOLDER)) {
    const std::string path = entry.path().string();
    if (path.ends_with(".records.jsonl") || path.ends_with(".records.jsonl.gz"))
      files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

void append_runs(const std::string& file, std::vector<ValidatedRun>& runs) {
  const auto records = read_records(file);
  REQUIRE(records.ok());
  for (const Record& record : records.value()) {
    if (!record.job) continue;
    runs.push_back(validate_run(record.id, *record.job, record.measured));
    if (record.framework.empty()) continue;
    runs.back().source =
        RunSource{record.source, record.framework, record.job->hardware.gpu.slug, record.year};
  }
}

const std::vector<ValidatedRun>& validated_runs() {
  static const std::vector<ValidatedRun> kRuns = [] {
    std::vector<ValidatedRun> runs;
    for (const std::string& file : record_files()) append_runs(file, runs);
    return runs;
  }();
  return kRuns;
}

TEST_CASE("every line holds over the recorded runs, and every known miss still misses") {
  const auto lines = read_accuracy_lines(MEMEST_TRUTH_FOLDER "/lines.yaml");
  REQUIRE(lines.ok());
  CHECK(render(hold_to_lines(validated_runs(), lines.value()), {}) == "");
}

TEST_CASE("the margins of every estimate are the quantiles of these and of published records") {
  std::vector<ValidatedRun> runs = validated_runs();
  append_runs(MEMEST_PUBLISHED_RUNS, runs);
  const auto shipped =
      std::ranges::find(embedded_configs(), "residuals/memory.yaml", &EmbeddedFile::path);
  REQUIRE(shipped != embedded_configs().end());
  const SourceMargins published = source_margins_of(told_intervals(runs), ranked_cells(runs));
  CHECK(write_residuals(margins_of(runs), published) == shipped->text);
}

}  // namespace
}  // namespace memest
