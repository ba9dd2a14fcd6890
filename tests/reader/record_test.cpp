// Records and the lines that they are held to, as text.
#include "memest/reader/record.hpp"

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "memest/reader/accuracy.hpp"
#include "memest/report/diagnostics.hpp"

namespace memest {
namespace {

Checked<std::vector<Record>> records_of(const std::string& text) {
  return read_records(std::make_shared<const SourceText>(SourceText{"runs.jsonl", text}));
}

Checked<AccuracyLines> lines_of(const std::string& text) {
  return read_accuracy_lines(std::make_shared<const SourceText>(SourceText{"lines.yaml", text}));
}

std::string record(const std::string& measured, const std::string& training = "") {
  return R"({"id": "a", "spec": {"model": "gpt2", "training": {"seq_len": 128)" + training +
         R"(}}, "measured": {)" + measured + "}}\n";
}

TEST_CASE("a record is a spec beside what was measured of it") {
  const auto records = records_of(
      record(R"("outcome": "ok", "allocated_peak_bytes": 7, "saved_bytes_per_layer": [1, 2], )"
             R"("forward_flops": 9, "step_seconds": 0.5, "phases": {"model": 3, "clip": 4}, )"
             R"("ranks": {"0": {"reserved_peak_bytes": 8}, "2": {"outcome": "oom"}})"));
  REQUIRE(records.ok());
  REQUIRE(records.value().size() == 1);
  const Record& read = records.value().front();
  CHECK(read.id == "a");
  REQUIRE(read.job);
  CHECK(read.job->training->seq_len == 128);
  const Observables& measured = read.measured;
  CHECK(measured.outcome == RunOutcome::ok);
  CHECK(measured.allocated_peak == Bytes(7));
  CHECK_FALSE(measured.reserved_peak);
  CHECK(measured.saved_by_layer == std::vector{Bytes(1), Bytes(2)});
  CHECK(measured.forward == Flops(9));
  CHECK(measured.step == Seconds(0.5));
  REQUIRE(measured.phases.size() == 2);
  CHECK(measured.phases[1].name == "clip");
  CHECK(measured.phases[1].bytes == Bytes(4));
  REQUIRE(measured.ranks.size() == 2);
  CHECK(measured.ranks[0].observed.reserved_peak == Bytes(8));
  CHECK(measured.ranks[1].rank == 2);
  CHECK(measured.ranks[1].observed.outcome == RunOutcome::out_of_memory);
}

TEST_CASE("a run that others published says whose framework it was and when, or neither") {
  const auto published = [](const std::string& keys) {
    std::string text = record(R"("step_seconds": 0.5)");
    return records_of(text.insert(text.find("\"spec\""), keys));
  };
  const auto whole = published(R"("framework": "NeMo", "year": 2024, )");
  REQUIRE(whole.ok());
  CHECK(whole.value().front().framework == "NeMo");
  CHECK(whole.value().front().year == 2024);
  const auto half = published(R"("year": 2024, )");
  REQUIRE_FALSE(half.ok());
  CHECK(render(half.diagnostics(), {}) ==
        "runs.jsonl:1:1: error: a published run has a framework and a year\n"
        "  1 | {\"id\": \"a\", \"year\": 2024, \"spec\": {\"model\": \"gpt2\", \"training\": "
        "{\"seq_len\": 128}}, \"meas...\n"
        "    | ^\n"
        "    = hint: write both, or neither\n");
  CHECK_FALSE(published(R"("framework": "NeMo", "year": 24, )").ok());
}

TEST_CASE("what a spec leaves out makes figures approximate, of memory, of time or of all") {
  const auto approximation_of = [](const std::string& approx) {
    const auto records =
        records_of(R"({"id": "a", "framework": "F", "year": 2024, "memory_kind": null, "approx": )" +
                   approx + R"(, "spec": {"model": "gpt2"}, "measured": {"outcome": "ok"}})");
    REQUIRE(records.ok());
    return records.value().front().approximation;
  };
  CHECK(approximation_of(R"({})").holds(Metric::outcome) == false);
  CHECK(approximation_of(R"({"memory": ["x"]})").holds(Metric::outcome));
  CHECK_FALSE(approximation_of(R"({"memory": ["x"]})").holds(Metric::step_seconds));
  CHECK(approximation_of(R"({"time": ["x"]})").holds(Metric::tokens_per_second_per_gpu));
  CHECK_FALSE(approximation_of(R"({"time": ["x"]})").holds(Metric::device_bytes));
  CHECK(approximation_of(R"({"all": ["x"]})").holds(Metric::device_bytes));
  CHECK(approximation_of(R"({"all": ["x"]})").holds(Metric::step_seconds));
}

TEST_CASE("what is null was not measured, blank lines are no records") {
  const auto records = records_of("\n" + record(R"("saved_bytes": null)") + "  \n");
  REQUIRE(records.ok());
  REQUIRE(records.value().size() == 1);
  CHECK_FALSE(records.value().front().measured.saved);
}

TEST_CASE("a spec that asks for what comes later is a record without a job") {
  const auto records = records_of(record("", R"(, "target_len": 4)"));
  REQUIRE(records.ok());
  CHECK(records.diagnostics().empty());
  CHECK_FALSE(records.value().front().job);
  CHECK(records.value().front().refusal ==
        "the target length of an encoder-decoder is not available yet");
}

TEST_CASE("a mistake in a spec is a warning at its place and spares the other records") {
  const auto records =
      records_of(record("") + R"({"id": "b", "spec": {"model": "gtp2"}, )" + R"("measured": {}})");
  REQUIRE(records.ok());
  CHECK(records.value()[0].job);
  CHECK_FALSE(records.value()[1].job);
  CHECK(render(records.diagnostics(), {}) ==
        "runs.jsonl:2:31: warning: unknown value 'gtp2' for 'model'\n"
        "  2 | {\"id\": \"b\", \"spec\": {\"model\": \"gtp2\"}, \"measured\": {}}\n"
        "    |                               ^~~~~~\n"
        "    = hint: did you mean 'gpt2'?\n");
}

TEST_CASE("every mistake of a file of records is told at its line") {
  const auto records = records_of(R"([1]
{"id": "a", "spec": {"model": "gpt2"}, "measured": {"allocated_peak_byte": 1}}
{"id": "a", "spec": {"model": "gpt2"}, "measured": {"phases": {"model": -1}}}
{"id": "c", "measured": {"outcome": "fine"}
)");
  CHECK_FALSE(records.ok());
  CHECK(render(records.diagnostics(), {}) ==
        "runs.jsonl:4:44: error: ',' or '}' is missing after the member\n"
        "  4 | {\"id\": \"c\", \"measured\": {\"outcome\": \"fine\"}\n"
        "    |                                            ^\n");
  const auto parsed = records_of(R"([1]
{"id": "a", "spec": {"model": "gpt2"}, "measured": {"allocated_peak_byte": 1}}
{"id": "a", "spec": {"model": "gpt2"}, "measured": {"phases": {"model": -1}}}
{"id": "c", "measured": {"outcome": "fine"}}
)");
  CHECK_FALSE(parsed.ok());
  CHECK(render(parsed.diagnostics(), {}) ==
        "runs.jsonl:1:1: error: a record is a mapping of keys\n"
        "  1 | [1]\n"
        "    | ^\n"
        "runs.jsonl:2:53: error: unknown key 'allocated_peak_byte'\n"
        "  2 | {\"id\": \"a\", \"spec\": {\"model\": \"gpt2\"}, \"measured\": "
        "{\"allocated_peak_byte\": 1}}\n"
        "    |                                                     ^~~~~~~~~~~~~~~~~~~~~\n"
        "    = hint: did you mean 'allocated_peak_bytes'?\n"
        "runs.jsonl:3:73: error: a phase is a whole number of bytes\n"
        "  3 | {\"id\": \"a\", \"spec\": {\"model\": \"gpt2\"}, \"measured\": {\"phases\": "
        "{\"model\": -1}}}\n"
        "    |                                                                         ^~\n"
        "runs.jsonl:3:1: error: a second record with the id 'a'\n"
        "  3 | {\"id\": \"a\", \"spec\": {\"model\": \"gpt2\"}, \"measured\": {\"phases\": "
        "{\"model\": -1}}}\n"
        "    | ^\n"
        "    = hint: the first is in line 2\n"
        "runs.jsonl:4:37: error: unknown value 'fine' for 'outcome'\n"
        "  4 | {\"id\": \"c\", \"measured\": {\"outcome\": \"fine\"}}\n"
        "    |                                     ^~~~~~\n"
        "    = hint: known: ok, oom\n"
        "runs.jsonl:4:1: error: missing key 'spec'\n"
        "  4 | {\"id\": \"c\", \"measured\": {\"outcome\": \"fine\"}}\n"
        "    | ^\n");
}

TEST_CASE("lines are shares of what was measured, or equality") {
  const auto lines = lines_of(R"(
lines:
  - {metric: allocated_peak_bytes, median: 0.2 %, maximum: 1 %, least_rows: 3}
  - {metric: outcome, equal: true}
known_misses: [{id: a, metric: outcome, reason: fragmentation}]
known_group_misses: [{group: g, metric: allocated_peak_bytes, reason: few, ceiling: 2 %}]
not_predicted: [{metric: phases, reason: later}]
)");
  REQUIRE(lines.ok());
  CHECK(lines.value().lines[0].median == 0.002);
  CHECK(lines.value().lines[0].maximum == 0.01);
  CHECK(lines.value().lines[0].least_rows == 3);
  CHECK(lines.value().lines[1].equal);
  CHECK(lines.value().misses[0].id == "a");
  CHECK_FALSE(lines.value().misses[0].ceiling);
  CHECK(lines.value().misses[0].span.line == 5);
  CHECK(lines.value().group_misses[0].ceiling == 0.02);
  CHECK(lines.value().not_predicted[0].metric == Metric::phases);
}

TEST_CASE("a file of lines that says nothing, or two things, is refused at its place") {
  CHECK(render(lines_of("lines: [{metric: outcom, equal: true}, {metric: phases, median: 2}]\n")
                   .diagnostics(),
               {}) ==
        "lines.yaml:1:18: error: unknown value 'outcom' for 'metric'\n"
        "  1 | lines: [{metric: outcom, equal: true}, {metric: phases, median: 2}]\n"
        "    |                  ^~~~~~\n"
        "    = hint: did you mean 'outcome'?\n"
        "lines.yaml:1:65: error: a share needs its unit\n"
        "  1 | lines: [{metric: outcom, equal: true}, {metric: phases, median: 2}]\n"
        "    |                                                                 ^\n"
        "    = hint: write 2 %\n");
  CHECK(
      render(
          lines_of("lines:\n- {metric: phases}\n- {metric: phases, maximum: 1 %}\n").diagnostics(),
          {}) ==
      "lines.yaml:2:12: error: a line has 'equal: true', or 'median', 'maximum' or both\n"
      "  2 | - {metric: phases}\n"
      "    |            ^~~~~~\n"
      "lines.yaml:3:12: error: a second line for 'phases'\n"
      "  3 | - {metric: phases, maximum: 1 %}\n"
      "    |            ^~~~~~\n");
}

}  // namespace
}  // namespace memest
