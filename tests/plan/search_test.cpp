#include "memest/plan/search.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <optional>

#include "jobs.hpp"
#include "memest/reader/catalog.hpp"

namespace memest {
namespace {

using test::gpt2;
using test::llama;

GpuSpec gpu_named(const char* name) {
  const Checked<GpuSpec> gpu = find_gpu(name);
  REQUIRE(gpu.ok());
  return gpu.value();
}

Price price_of(const char* gpu, double dollars) {
  return {.gpu = gpu,
          .price = DollarsPerHour(dollars),
          .provider = "test",
          .source = "test",
          .date = "",
          .is_default = true};
}

PlanRequest request_for(Job job, std::vector<const char*> gpus, std::vector<std::int64_t> counts) {
  PlanRequest request;
  request.job = std::move(job);
  for (const char* gpu : gpus) request.gpus.push_back(gpu_named(gpu));
  request.counts = std::move(counts);
  return request;
}

/// Every setting of the space, each answered by estimate_job: what the search must agree with.
struct BruteForce {
  Job job;
  std::vector<std::int64_t> micro_batches;
  std::vector<Recompute> recomputes{NoRecompute{}, SelectiveRecompute{}, FullRecompute{}};
  std::vector<ZeroStage> stages{ZeroStage::none, ZeroStage::optimizer,
                                ZeroStage::optimizer_gradients,
                                ZeroStage::optimizer_gradients_weights};

  [[nodiscard]] double seconds_per_token() const {
    double best = std::numeric_limits<double>::infinity();
    const std::int64_t share = job.global_batch() / job.parallelism.data;
    for (const std::int64_t micro_batch : micro_batches) {
      for (const Recompute& recompute : recomputes) {
        for (const ZeroStage stage : stages) {
          Job candidate = job;
          candidate.training->micro_batch = micro_batch;
          candidate.training->gradient_accumulation = share / micro_batch;
          candidate.training->recompute = recompute;
          candidate.parallelism.zero = stage;
          best = std::min(best, of(candidate));
        }
      }
    }
    return best;
  }

 private:
  static double of(const Job& candidate) {
    const JobEstimate estimate = estimate_job(candidate);
    if (std::get<MemoryAnswer>(estimate.memory).verdict != Verdict::fits) {
      return std::numeric_limits<double>::infinity();
    }
    return 1 / (std::get<TimeEstimate>(estimate.time).tokens_per_second_per_gpu *
                static_cast<double>(candidate.hardware.count));
  }
};

double seconds_per_token(const PlanVerdict& verdict) {
  return 1 / (std::get<TimeEstimate>(verdict.time).tokens_per_second_per_gpu *
              static_cast<double>(verdict.candidate.gpus));
}

}  // namespace

TEST_CASE("The search finds what brute force over estimate_job finds") {
  struct Space {
    Job job;
    const char* gpu;
    std::vector<std::int64_t> divisors;
  };
  const std::vector<Space> spaces{
      {gpt2("seq_len: 1024, global_batch: 48, precision: bf16"), "rtx-4090", {1, 2, 3, 4, 6, 12}},
      {gpt2("seq_len: 512, global_batch: 32, precision: amp-bf16"), "a10", {1, 2, 4, 8}},
      {llama("seq_len: 2048, global_batch: 8, precision: mixed"), "h100-sxm-80gb", {1, 2}},
      {llama("seq_len: 4096, global_batch: 16, precision: bf16"), "a100-sxm-80gb", {1, 2, 4}},
  };
  for (const Space& space : spaces) {
    const PlanRequest request = request_for(space.job, {space.gpu}, {4});
    const PlanAnswer answer = search_plans(request);
    REQUIRE(answer.best.size() == 1);
    BruteForce brute{.job = space.job, .micro_batches = space.divisors};
    brute.job.hardware.gpu = request.gpus.front();
    brute.job.hardware.count = 4;
    brute.job.training->micro_batch = 1;
    brute.job.training->gradient_accumulation = space.job.global_batch() / 4;
    brute.job.parallelism.data = 4;
    INFO(space.gpu);
    CHECK(seconds_per_token(answer.best.front()) == brute.seconds_per_token());
  }
}

TEST_CASE("What the file writes is kept") {
  const PlanAnswer answer = search_plans(
      request_for(gpt2("seq_len: 1024, micro_batch: 3, recompute: full, precision: bf16",
                       "parallelism: {zero: 1}"),
                  {"a100-sxm-80gb"}, {8}));
  REQUIRE(answer.best.size() == 1);
  const PlanCandidate& candidate = answer.best.front().candidate;
  CHECK(candidate.micro_batch == 3);
  CHECK(std::holds_alternative<FullRecompute>(candidate.recompute));
  CHECK(candidate.parallelism.zero == ZeroStage::optimizer);
  CHECK(answer.candidates == 1);
}

TEST_CASE("The global batch is kept: micro-batch, accumulation and GPUs multiply to it") {
  const PlanAnswer answer =
      search_plans(request_for(gpt2("seq_len: 1024, global_batch: 96, precision: bf16"),
                               {"a100-sxm-80gb", "rtx-4090"}, {1, 2, 8}));
  CHECK(answer.best.size() == 6);
  for (const PlanVerdict& verdict : answer.best) {
    const PlanCandidate& candidate = verdict.candidate;
    CHECK(candidate.micro_batch * candidate.gradient_accumulation * candidate.gpus == 96);
  }
}

TEST_CASE("A global batch that does not divide is refused by name") {
  const PlanAnswer answer = search_plans(request_for(
      gpt2("seq_len: 1024, global_batch: 12, precision: bf16"), {"a100-sxm-80gb"}, {8}));
  CHECK(answer.best.empty());
  REQUIRE(answer.refused.size() == 1);
  CHECK(answer.refused.front().reason ==
        "the global batch of 12 sequences does not divide into 8 equal shares of whole "
        "micro-batches");
}

TEST_CASE("A refusal says what is missing, what fills the device and what would help", "[peers]") {
  const PlanAnswer answer = search_plans(
      request_for(llama("seq_len: 1024, global_batch: 8, precision: mixed, recompute: none",
                        "parallelism: {zero: 0}"),
                  {"a100-sxm-80gb"}, {8}));
  CHECK(answer.best.empty());
  REQUIRE(answer.refused.size() == 1);
  const PlanVerdict& refused = answer.refused.front();
  CHECK(refused.verdict == Verdict::does_not_fit);
  CHECK(refused.candidate.micro_batch == 1);
  CHECK(refused.reason.starts_with("needs "));
  CHECK(refused.reason.find(" GiB more: ") != std::string::npos);
  REQUIRE_FALSE(refused.levers.empty());
  CHECK(refused.levers.front().name == "ZeRO 3");
  CHECK(refused.levers.front().fits);
  CHECK(refused.levers.front().saved > Bytes());
  REQUIRE(refused.largest_terms.size() > 3);
  Bytes sum;
  for (const NamedBytes& term : refused.largest_terms) sum += term.bytes;
  CHECK(sum == refused.device);
  CHECK(std::is_sorted(
      refused.largest_terms.begin(), refused.largest_terms.end(),
      [](const NamedBytes& left, const NamedBytes& right) { return left.bytes > right.bytes; }));
}

TEST_CASE("No answer's own parts exceed its GPU", "[peers]") {
  PlanRequest request =
      request_for(llama("seq_len: 4096, global_batch: 64, precision: mixed"), {}, {8});
  request.gpus = all_gpus();
  const PlanAnswer answer = search_plans(request);
  CHECK(answer.best.size() + answer.refused.size() == request.gpus.size());
  for (const PlanVerdict& verdict : answer.best) {
    CHECK(verdict.low <= verdict.capacity);
    if (verdict.verdict == Verdict::fits) {
      CHECK(verdict.high <= verdict.capacity);
      CHECK(verdict.reason.empty());
    } else {
      CHECK(verdict.reason.starts_with("too close to call: "));
    }
  }
  for (const PlanVerdict& verdict : answer.refused) {
    CHECK(verdict.device > verdict.capacity);
    CHECK_FALSE(verdict.reason.empty());
    CHECK_FALSE(verdict.levers.empty());
  }
}

TEST_CASE("The cheapest a token comes first, answers without a price after it") {
  PlanRequest request =
      request_for(gpt2("seq_len: 1024, global_batch: 64, precision: bf16"),
                  {"h100-sxm-80gb", "a100-sxm-80gb", "h200-sxm-141gb", "gb10"}, {8});
  request.prices = {price_of("a100-sxm-80gb", 100), price_of("h100-sxm-80gb", 1)};
  const PlanAnswer answer = search_plans(request);
  REQUIRE(answer.best.size() == 4);
  CHECK(answer.best[0].candidate.gpu->slug == "h100-sxm-80gb");
  CHECK(answer.best[1].candidate.gpu->slug == "a100-sxm-80gb");
  CHECK(answer.best[2].candidate.gpu->slug == "h200-sxm-141gb");
  // No rate is known, but memory is judged all the same.
  CHECK(answer.best[3].candidate.gpu->slug == "gb10");
  CHECK(std::holds_alternative<Unavailable>(answer.best[3].time));
  CHECK(answer.best[3].verdict == Verdict::fits);
}

TEST_CASE("On one GPU nothing is sharded") {
  const PlanAnswer answer = search_plans(
      request_for(gpt2("seq_len: 1024, global_batch: 8, precision: bf16"), {"a10"}, {1}));
  REQUIRE(answer.best.size() == 1);
  CHECK(answer.best.front().candidate.parallelism.zero == ZeroStage::none);
}

TEST_CASE("A model without a graph is not searched, and the answer says why") {
  Job job = gpt2("seq_len: 1024");
  job.training.reset();
  CHECK(std::holds_alternative<Unavailable>(
      search_plans(request_for(job, {"a10"}, {1})).unavailable));
}

TEST_CASE("adapters are planned on one GPU only") {
  const Job job = llama(
      "seq_len: 1024, global_batch: 8, precision: bf16, adapter: {lora: {rank: 8, targets: "
      "[q_proj]}}");
  const PlanAnswer both = search_plans(request_for(job, {"h200-sxm-141gb"}, {1, 8}));
  CHECK(both.best.size() + both.refused.size() == 1);
  const PlanAnswer several = search_plans(request_for(job, {"h200-sxm-141gb"}, {8}));
  CHECK(std::holds_alternative<Unavailable>(several.unavailable));
}

}  // namespace memest
