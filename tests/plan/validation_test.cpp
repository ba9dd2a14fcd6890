// Comparison of a record with its prediction, and the rules of the lines.
#include "memest/plan/validation.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "memest/spec/gpu/margin.hpp"

namespace memest {
namespace {

/// A run of group "g" with one figure measured as 1000 bytes.
ValidatedRun run_of(const std::string& id, Metric metric, int predicted) {
  ValidatedRun run;
  run.id = id;
  run.group = "g";
  run.comparisons.push_back({metric, "", Int128{1000}, Int128{predicted}});
  return run;
}

ValidatedRun peak_of(const std::string& id, int predicted) {
  return run_of(id, Metric::allocated_peak_bytes, predicted);
}

RankObservables rank_of(std::int64_t rank, Bytes allocated_peak) {
  RankObservables result;
  result.rank = rank;
  result.observed.allocated_peak = allocated_peak;
  return result;
}

AccuracyLines peak_lines() {
  AccuracyLines lines;
  lines.lines.push_back(
      {.metric = Metric::allocated_peak_bytes, .median = 0.01, .maximum = 0.05, .span = {}});
  return lines;
}

std::vector<std::string> broken(const std::vector<ValidatedRun>& runs, const AccuracyLines& lines) {
  std::vector<std::string> messages;
  for (const Diagnostic& diagnostic : hold_to_lines(runs, lines)) {
    messages.push_back(diagnostic.message);
  }
  return messages;
}

using Messages = std::vector<std::string>;

TEST_CASE("what was measured is compared, what was not is left out") {
  Observables measured;
  measured.allocated_peak = Bytes(2000);
  measured.reserved_peak = Bytes(3000);
  measured.outcome = RunOutcome::ok;
  Observables predicted;
  predicted.allocated_peak = Bytes(1900);
  predicted.device = Bytes(5000);
  predicted.outcome = RunOutcome::out_of_memory;
  const std::vector<Comparison> rows = compare(measured, predicted);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].metric == Metric::allocated_peak_bytes);
  CHECK(std::abs(rows[0].error() + 0.05) < 1e-12);
  CHECK(rows[1].metric == Metric::reserved_peak_bytes);
  CHECK_FALSE(rows[1].is_predicted());
  CHECK_FALSE(rows[1].equal());
  CHECK_FALSE(rows[2].equal());
}

TEST_CASE("whole numbers are equal as integers, beyond what a double tells apart") {
  Observables measured;
  measured.forward = Flops(9'007'199'254'740'993);  // 2^53 + 1
  Observables predicted;
  predicted.forward = Flops(9'007'199'254'740'992);
  CHECK_FALSE(compare(measured, predicted).front().equal());
  predicted.forward = measured.forward;
  CHECK(compare(measured, predicted).front().equal());
}

TEST_CASE("nothing measured and something predicted is infinitely far off") {
  Observables measured;
  measured.buffers = Bytes(0);
  Observables predicted;
  predicted.buffers = Bytes(0);
  CHECK(compare(measured, predicted).front().error() == 0);
  predicted.buffers = Bytes(1);
  CHECK(std::isinf(compare(measured, predicted).front().error()));
}

TEST_CASE("one number stands for every layer; the first layer that differs is named") {
  Observables measured;
  measured.saved_by_layer = std::vector{Bytes(5)};
  Observables predicted;
  predicted.saved_by_layer = std::vector(3, Bytes(5));
  CHECK(compare(measured, predicted).front().equal());
  predicted.saved_by_layer->at(1) = Bytes(6);
  const Comparison row = compare(measured, predicted).front();
  CHECK_FALSE(row.equal());
  CHECK(row.part == "layer 2");
  measured.saved_by_layer->clear();  // every block is recomputed
  CHECK_FALSE(compare(measured, predicted).front().equal());
  predicted.saved_by_layer->clear();
  CHECK(compare(measured, predicted).front().equal());
}

TEST_CASE("phases and ranks are compared by name and number") {
  Observables measured;
  measured.phases = {{"model", Bytes(1)}, {"step1.forward_peak", Bytes(2)}};
  measured.ranks = {rank_of(1, Bytes(10))};
  Observables predicted;
  predicted.phases = {{"step1.forward_peak", Bytes(2)}};
  predicted.ranks = {rank_of(0, Bytes(11)), rank_of(1, Bytes(10))};
  const std::vector<Comparison> rows = compare(measured, predicted);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].part == "rank 1");
  CHECK(rows[0].equal());
  CHECK_FALSE(rows[1].is_predicted());
  CHECK(rows[2].part == "step1.forward_peak");
  CHECK(rows[2].equal());
}

TEST_CASE("quantiles are linear between neighbours") {
  CHECK(quantile({3, 1, 2}, 0.5) == 2);
  CHECK(quantile({1, 2}, 0.5) == 1.5);
  CHECK(quantile({4}, 0.9) == 4);
}

TEST_CASE("a row past its maximum and a group past its median break a line") {
  CHECK(broken({peak_of("a", 1000), peak_of("b", 1001), peak_of("c", 950)}, peak_lines()).empty());
  CHECK(broken({peak_of("a", 1000), peak_of("b", 1001), peak_of("c", 940)}, peak_lines()) ==
        Messages{"'c' is 6 % off in allocated_peak_bytes; the line is 5 %"});
  CHECK(broken({peak_of("a", 980)}, peak_lines()) ==
        Messages{"the median of allocated_peak_bytes in 'g' is 2 %; the line is 1 %"});
}

TEST_CASE(
    "a known miss keeps its line from breaking, up to its ceiling, and only while it misses") {
  AccuracyLines lines = peak_lines();
  lines.misses.push_back({"c", Metric::allocated_peak_bytes, "why", 0.07, {}});
  const auto with = [&](int predicted) {
    return broken({peak_of("a", 1000), peak_of("b", 1000), peak_of("c", predicted)}, lines);
  };
  CHECK(with(940).empty());
  CHECK(with(920) == Messages{"'c' is 8 % off in allocated_peak_bytes, past its ceiling of 7 %"});
  CHECK(with(960) == Messages{"'c' no longer misses allocated_peak_bytes"});
  CHECK(broken({peak_of("a", 1000)}, lines) == Messages{"no record has the id 'c'"});
  CHECK(broken({peak_of("a", 1000), run_of("c", Metric::phases, 1)}, lines) ==
        Messages{"'c' has no prediction of allocated_peak_bytes to miss"});
  lines.misses.front().metric = Metric::phases;
  CHECK(broken({run_of("c", Metric::phases, 1)}, lines) == Messages{"no line holds phases"});
}

TEST_CASE("a known miss of a median is held to its ceiling too") {
  AccuracyLines lines = peak_lines();
  lines.group_misses.push_back({"g", Metric::allocated_peak_bytes, "why", 0.03, {}});
  CHECK(broken({peak_of("a", 980)}, lines).empty());
  CHECK(broken({peak_of("a", 960)}, lines).size() == 1);
  CHECK(broken({peak_of("a", 1000)}, lines) ==
        Messages{"the median of 'g' no longer misses allocated_peak_bytes"});
  lines.group_misses.front().group = "h";
  CHECK(broken({peak_of("a", 1000)}, lines) ==
        Messages{"no group 'h' has rows of allocated_peak_bytes"});
}

TEST_CASE("equality breaks by one, and by too few rows") {
  AccuracyLines lines;
  lines.lines.emplace_back();
  lines.lines.front().metric = Metric::saved_bytes;
  lines.lines.front().equal = true;
  CHECK(broken({run_of("a", Metric::saved_bytes, 1000)}, lines).empty());
  CHECK(broken({run_of("a", Metric::saved_bytes, 1001)}, lines) ==
        Messages{"'a' differs in saved_bytes; the line is equality"});
  lines.lines.front().least_rows = 2;
  CHECK(broken({run_of("a", Metric::saved_bytes, 1000)}, lines) ==
        Messages{"1 rows of saved_bytes are compared; 2 are asked for"});
}

TEST_CASE("a figure that is measured and not predicted needs a reason, and no longer than that") {
  ValidatedRun run = peak_of("a", 1000);
  run.comparisons.push_back({Metric::allocated_peak_bytes, "rank 1", Int128{1000}, {}});
  AccuracyLines lines = peak_lines();
  CHECK(broken({run}, lines) ==
        Messages{"1 rows of allocated_peak_bytes are measured and not predicted"});
  lines.not_predicted.push_back({Metric::allocated_peak_bytes, "why", {}});
  CHECK(broken({run}, lines).empty());
  CHECK(broken({peak_of("a", 1000)}, lines) ==
        Messages{"every measured allocated_peak_bytes is predicted"});
  run.refusal = "not available";  // then it is the run that is refused
  lines.not_predicted.clear();
  CHECK(broken({run}, lines).empty());
}

ValidatedRun published_by(const std::string& framework, Metric metric, int predicted) {
  ValidatedRun run = run_of("published", metric, predicted);
  run.source =
      RunSource{.publication = "a table", .framework = framework, .gpu = "a100", .year = 2024};
  return run;
}

TEST_CASE("figures of which a spec leaves something out are answered and judged by nothing") {
  ValidatedRun run = published_by("A", Metric::allocated_peak_bytes, 2000);
  run.comparisons.push_back({Metric::step_seconds, "", 2.0, 1.0});
  set_apart(run, {.memory = true, .time = false});
  REQUIRE(run.comparisons.size() == 1);
  CHECK(run.comparisons.front().metric == Metric::step_seconds);
  REQUIRE(run.approximate.size() == 1);
  CHECK(run.worst(Metric::allocated_peak_bytes) == nullptr);
  CHECK(hold_to_lines({run}, peak_lines()).empty());
  for (const MetricSummary& row : summarize({run})) CHECK(row.metric == Metric::step_seconds);
}

TEST_CASE(
    "published runs are counted by framework and over all, answered, in full and not at all") {
  ValidatedRun approximate = published_by("A", Metric::device_bytes, 3000);
  set_apart(approximate, {.memory = true, .time = true});
  ValidatedRun refused = published_by("B", Metric::device_bytes, 0);
  refused.comparisons.front().predicted = {};
  const std::vector<PublishedSummary> rows = summarize_published(
      {published_by("A", Metric::device_bytes, 900), published_by("A", Metric::device_bytes, 1300),
       approximate, refused, run_of("recorded", Metric::device_bytes, 5000)});
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].framework.empty());
  CHECK(rows[0].measured == 4);
  CHECK(rows[0].answered == 3);
  CHECK(rows[0].in_full == 2);
  CHECK(rows[1].framework == "A");
  CHECK(rows[1].measured == 3);
  CHECK(std::abs(rows[1].median_error - 0.1) < 1e-12);  // between -10 % and +30 %
  CHECK(std::abs(rows[1].median - 0.2) < 1e-12);
  CHECK(rows[2].framework == "B");
  CHECK(rows[2].answered == 0);
  CHECK(rows[2].median == 0);
}

}  // namespace
}  // namespace memest
