// The recorded steps of Megatron: read as records, refused by name where memest has not their
// parallelism, and their seconds. Nothing was fitted to them.
#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "memest/plan/estimate.hpp"
#include "memest/reader/record.hpp"
#include "plan/estimate/whole_model.hpp"

namespace memest {
namespace {

TEST_CASE("recorded runs of Megatron have peaks and jobs, and all but two have seconds") {
  const auto records = read_records(MEMEST_TRUTH_FOLDER "/simumax.records.jsonl.gz");
  REQUIRE(records.ok());
  CHECK(records.value().size() == 17);
  int timed = 0;
  for (const Record& record : records.value()) {
    INFO(record.id);
    CHECK(record.measured.allocated_peak.has_value());
    CHECK(record.job.has_value());
    if (record.measured.step) ++timed;
  }
  CHECK(timed == 15);
}

/// Expected over measured of the steps of models so called, less 1, without its sign; ascending.
std::vector<double> errors_of_steps(const std::string& model,
                                    const std::string& file = "simumax.records.jsonl.gz") {
  const auto records = read_records(MEMEST_TRUTH_FOLDER "/" + file);
  std::vector<double> errors;
  for (const Record& record : records.value()) {
    if (!record.measured.step || record.id.find(model) == std::string::npos) continue;
    const JobEstimate estimate = estimate_job(*record.job, 0);
    const auto* time = std::get_if<TimeEstimate>(&estimate.time);
    if (time == nullptr) continue;
    errors.push_back(std::abs(time->step / *record.measured.step - 1));
    UNSCOPED_INFO(record.id << ": " << 100 * errors.back() << " %");
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

TEST_CASE("seconds of Megatron's recorded steps over tensor, pipeline and data parallelism") {
  const std::vector<double> errors = errors_of_steps("llama3");
  REQUIRE(errors.size() == 12);
  CHECK(errors[6] <= 0.05);
  // Two miss: with four tensor ranks beside two data-parallel ones, 12 % over four micro-steps of
  // a 70B's layers, 8.03 % over 32 of an 8B.
  CHECK(errors[9] <= 0.08);
  CHECK(errors.back() <= 0.12);
}

TEST_CASE("seconds of steps on one H200, whose products' law saw some of their shapes") {
  const std::vector<double> errors = errors_of_steps("h200.", "device.records.jsonl.gz");
  REQUIRE(errors.size() == 35);
  CHECK(errors[11] <= 0.035);
  CHECK(errors[17] <= 0.07);
  // The others wait for the host, a virtual machine that launches at half the usual rate.
  CHECK(errors[24] <= 0.18);
}

TEST_CASE("No step of a model with images is faster than its GPU, or endless") {
  const auto records = read_records(MEMEST_TRUTH_FOLDER "/multimodal.records.jsonl.gz");
  REQUIRE(records.ok());
  int timed = 0;
  for (const Record& record : records.value()) {
    if (!record.job || !record.job->training) continue;
    const auto step = time_of_step(*record.job);
    const auto* time = std::get_if<TimeEstimate>(&step);
    if (time == nullptr) continue;
    INFO(record.id);
    CHECK(time->step.value() < 60);
    CHECK(time->mfu < 1);
    ++timed;
  }
  CHECK(timed == 135);
}

TEST_CASE("seconds of Megatron's recorded steps on 8 to 2,304 H100") {
  std::vector<double> errors;
  for (const char* model : {"gpt3", "llama", "nemotron"}) {
    const std::vector<double> more = errors_of_steps(model, "megatron-h100.records.jsonl.gz");
    errors.insert(errors.end(), more.begin(), more.end());
  }
  std::sort(errors.begin(), errors.end());
  REQUIRE(errors.size() == 35);
  CHECK(errors[17] <= 0.02);
  CHECK(errors.back() <= 0.05);
  // All are fast: experts are taken to be as full as one another, and nobody says how full the
  // fullest were.
  const std::vector<double> experts = errors_of_steps("grok1", "megatron-h100.records.jsonl.gz");
  REQUIRE(experts.size() == 9);
  CHECK(experts.back() <= 0.11);
}

TEST_CASE("seconds of Megatron's recorded steps on B200, from its kernels alone") {
  const std::vector<double> errors = errors_of_steps("b200", "simumax-b200.records.jsonl.gz");
  REQUIRE(errors.size() == 15);
  // All are fast: kernels come to 0.87 of these steps, and to all of those that NVIDIA publishes.
  CHECK(errors[7] <= 0.14);
  // With 8 tensor ranks, where calls are shortest.
  CHECK(errors.back() <= 0.32);
}

TEST_CASE("seconds of Megatron's recorded steps over expert parallelism") {
  const std::vector<double> errors = errors_of_steps("deepseekv2");
  REQUIRE(errors.size() == 3);
  // The kernels beside grouped products are known least.
  CHECK(errors.front() <= 0.08);
  CHECK(errors.back() <= 0.15);
}

TEST_CASE("FLOPs of a pipeline's ranks add up to the model's, and the last runs most") {
  const auto records = read_records(MEMEST_TRUTH_FOLDER "/simumax.records.jsonl.gz");
  int pipelines = 0;
  for (const Record& record : records.value()) {
    if (!record.job || record.job->parallelism.pipeline == 1) continue;
    const Job& job = *record.job;
    LoweringPolicy whole = policy_of(job);
    whole.parts.clear();
    const FlopsEstimate model = count_flops(std::get<Graph>(lower(job.model, whole)), job);
    Flops sum;
    Flops last;
    for (std::int64_t rank = 0; rank < job.parallelism.pipeline; ++rank) {
      const auto stage = lower(job.model, policy_of(job, rank));
      last = count_flops(std::get<Graph>(stage), job).executed();
      sum += last;
    }
    CHECK(sum == model.executed());
    CHECK(std::get<FlopsEstimate>(estimate_job(job, 0).flops).executed() == last);
    ++pipelines;
  }
  CHECK(pipelines == 5);
}

/// What the passes of a graph take on the job's GPU, one micro-step.
PassTimes passes_of(const Graph& graph, const Job& job) {
  const StepWork work = work_of(graph, job);
  const GpuLaws laws(job.hardware.gpu);
  const Links links(laws, job.hardware);
  const auto prices =
      price_ops(work, links, places_of(job.parallelism, job.hardware.gpus_per_node));
  return PricedModel({work, prices}, job, links).stage(StageSplit(graph.layers()), 0).passes;
}

TEST_CASE("stages lowered one by one take what a search takes from the whole model") {
  const auto records = read_records(MEMEST_TRUTH_FOLDER "/simumax.records.jsonl.gz");
  for (const Record& record : records.value()) {
    if (!record.job) continue;
    const Job& job = *record.job;
    LoweringPolicy whole = policy_of(job);
    whole.parts.clear();
    const auto lowered = lower(job.model, whole);
    PassTimes sum;
    for (std::int64_t rank = 0; rank < job.parallelism.pipeline; ++rank) {
      sum += passes_of(std::get<Graph>(lower(job.model, policy_of(job, rank))), job);
    }
    const PassTimes model = passes_of(std::get<Graph>(lowered), job);
    INFO(record.id);
    CHECK(sum.forward == Catch::Approx(model.forward));
    CHECK(sum.backward == Catch::Approx(model.backward));
  }
}

}  // namespace
}  // namespace memest
