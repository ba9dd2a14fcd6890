// Recorded runs in the place of a spec.
#include "memest/reader/recorded_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "memest/report/diagnostics.hpp"

namespace memest {
namespace {

const std::string kRecordings = MEMEST_RECORDINGS;

/// A request for the spec of that text, which lies beside the recordings.
ReadRequest request_for(const std::string& text) {
  const std::string name = kRecordings + "job.yaml";
  ReadRequest request{{name}};
  request.texts.push_back(std::make_shared<const SourceText>(SourceText{name, text}));
  return request;
}

RecordedJob job_of(const ReadRequest& request) {
  const auto job = find_recorded_job(request);
  INFO(render(job.diagnostics(), {}));
  REQUIRE(job.ok());
  REQUIRE(job.value().has_value());
  return *job.value();
}

std::string error_of(const ReadRequest& request) {
  const auto job = find_recorded_job(request);
  REQUIRE_FALSE(job.ok());
  return job.diagnostics().front().message;
}

TEST_CASE("a spec names a recording, its sizes, a GPU and a budget") {
  const RecordedJob job = job_of(request_for(
      "recording: family.memrec\nat: {batch: 3, seq: 640}\n"
      "hardware: {gpu: a100-sxm-80gb, memory: 40GiB, price: 2 USD/h}\n"
      "budget: {memory: 30GiB, margin: 10 %}\nallocator: {expandable_segments: true}\n"));
  CHECK(std::holds_alternative<RecordedFamily>(job.recorded));
  CHECK(job.at == std::vector<std::string>{"batch=3", "seq=640"});
  CHECK(job.hardware.gpu.slug == "a100-sxm-80gb");
  CHECK(job.names_gpu);
  CHECK(job.hardware.memory == Bytes(std::int64_t{40} << 30U));
  CHECK(job.hardware.price->value() == 2 * DollarsPerHour(1).value());
  CHECK(job.budget.memory == Bytes(std::int64_t{30} << 30U));
  CHECK(job.settings->expandable_segments);
  CHECK(job.conf == "expandable_segments:True");
}

TEST_CASE("a recording stands for the spec that names it alone") {
  ReadRequest request{{kRecordings + "family.memrec"}};
  request.overrides = {{"--at", "at.batch=2"}, {"--set", "budget.step_time=1s"}};
  const RecordedJob job = job_of(request);
  CHECK(job.at == std::vector<std::string>{"batch=2"});
  CHECK(job.budget.step_time == Seconds(1));
  // The GPU that stood there.
  CHECK(job.hardware.gpu.slug == "h100-sxm-80gb");
  CHECK_FALSE(job.hardware.assumed);
  CHECK_FALSE(job.names_gpu);
  CHECK_FALSE(job.settings.has_value());
  // One that says none has none.
  CHECK(job_of({{kRecordings + "trained.memrec.gz"}}).hardware.assumed);
}

TEST_CASE("the key is found in every way to write it") {
  for (const char* text : {"{recording: family.memrec}", "\"recording\": family.memrec\n",
                           "\xEF\xBB\xBFrecording : family.memrec\n"}) {
    CHECK(job_of(request_for(text)).file == kRecordings + "family.memrec");
  }
}

TEST_CASE("what is no recording is left to the reader of specs") {
  CHECK_FALSE(find_recorded_job({{"gpt2"}}).value().has_value());
  CHECK_FALSE(find_recorded_job(request_for("model: gpt2\n# recording: x\n")).value().has_value());
}

TEST_CASE("a recording of one process has no number of GPUs and no key of a model") {
  ReadRequest request{{kRecordings + "family.memrec"}};
  request.gpus = 4;
  CHECK(error_of(request) == "a recording is of one process, for which --gpus has no use");
  CHECK(error_of(request_for("recording: family.memrec\ntraining: {seq_len: 4}\n")) ==
        "unknown key 'training'");
  CHECK(error_of(request_for("recording: family.memrec\nhardware: {count: 4}\n")) ==
        "unknown key 'count'");
}

}  // namespace
}  // namespace memest
