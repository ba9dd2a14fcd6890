// The timeline, event by event, as equal sizes in equal order, held to recorded runs.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <set>
#include <string>

#include "memest/memory/timeline_difference.hpp"
#include "memest/plan/step_memory.hpp"
#include "memest/reader/read_trace.hpp"
#include "memest/reader/record.hpp"

namespace memest {
namespace {

const std::string kFolder = MEMEST_TRUTH_FOLDER "/";
constexpr std::size_t kConvnets = 20;
constexpr std::size_t kOffloads = 8;
constexpr std::size_t kMultimodals = 92;

/// Of a pipeline, whose trace it is: "megatron-pipeline-rank-2".
std::int64_t rank_of(const std::string& id) {
  static const std::string kRank = "-rank-";
  const std::size_t at = id.find(kRank);
  return at == std::string::npos ? 0 : std::stoll(id.substr(at + kRank.size()));
}

/// The first difference between a record's job and its trace, in words; empty where there is none.
std::string difference_of(const Record& record, const std::string& folder) {
  if (!record.job) return record.refusal;
  const auto answer =
      step_memory_of(*record.job, {rank_of(record.id), record.measured.data_rank.value_or(0)});
  if (const auto* reason = std::get_if<Unavailable>(&answer)) return reason->sentence;
  const auto& memory = std::get<StepMemory>(answer);
  const Checked<AllocatorTrace> trace = read_trace(kFolder + folder + record.id + ".trace.gz");
  REQUIRE(trace.ok());
  const auto difference = first_difference(memory.timeline, trace.value());
  if (!difference) return {};
  std::string text = "line " + std::to_string(difference->line);
  if (difference->predicted != kNoStorage) {
    text += ", predicted " + moment_name(memory, difference->predicted);
  }
  for (const StorageId storage : difference->freed_by_prediction) {
    text += ", only the prediction frees " + moment_name(memory, storage);
  }
  for (const StorageId storage : difference->freed_by_record) {
    text += ", only the record frees " + moment_name(memory, storage);
  }
  return text;
}

TEST_CASE("every way of running a step is the recorded one, event by event", "[timeline]") {
  const auto records = read_records(kFolder + "steps/specs.jsonl.gz");
  REQUIRE(records.ok());
  CHECK(records.value().size() == 585);
  for (const Record& record : records.value()) {
    INFO(record.id);
    CHECK(difference_of(record, "steps/") == "");
  }
}

TEST_CASE("convolutional nets' steps are the recorded ones, event by event", "[timeline]") {
  const auto records = read_records(kFolder + "convnets/specs.jsonl.gz");
  REQUIRE(records.ok());
  CHECK(records.value().size() == kConvnets);
  for (const Record& record : records.value()) {
    INFO(record.id);
    CHECK(difference_of(record, "convnets/") == "");
  }
}

TEST_CASE("models with images step as recorded, event by event", "[timeline]") {
  const auto records = read_records(kFolder + "multimodal/specs.jsonl.gz");
  REQUIRE(records.ok());
  CHECK(records.value().size() == kMultimodals);
  for (const Record& record : records.value()) {
    INFO(record.id);
    CHECK(difference_of(record, "multimodal/") == "");
  }
}

TEST_CASE("saved tensors on the host come and go as recorded, event by event", "[timeline]") {
  const auto records = read_records(kFolder + "offload/specs.jsonl.gz");
  REQUIRE(records.ok());
  CHECK(records.value().size() == kOffloads);
  for (const Record& record : records.value()) {
    INFO(record.id);
    CHECK(difference_of(record, "offload/") == "");
  }
}

TEST_CASE("forwards of prompts and calls of generate() are the recorded ones, event by event",
          "[timeline]") {
  const auto records = read_records(kFolder + "prompts/specs.jsonl");
  REQUIRE(records.ok());
  CHECK(records.value().size() == 29);
  for (const Record& record : records.value()) {
    INFO(record.id);
    CHECK(difference_of(record, "prompts/") == "");
  }
}

TEST_CASE("public models' steps are the recorded ones, event by event", "[timeline]") {
  const std::set<std::string> equal = {"v028", "v050", "v104", "v115", "v116"};
  const auto records = read_records(kFolder + "transformers.records.jsonl.gz");
  REQUIRE(records.ok());
  std::size_t seen = 0;
  for (const Record& record : records.value()) {
    if (!equal.contains(record.id)) continue;
    ++seen;
    INFO(record.id);
    CHECK(difference_of(record, "traces/") == "");
  }
  CHECK(seen == equal.size());
}

}  // namespace
}  // namespace memest
