// Plans of models that the closed form has no formulas for: their candidates are followed.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <memory>
#include <string>

#include "memest/memory/unfollowed.hpp"
#include "memest/plan/largest.hpp"
#include "memest/plan/search.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr const char* kSmall =
    "{model_type: llava, vision_config: {hidden_size: 64, intermediate_size: 128, "
    "num_hidden_layers: 3, num_attention_heads: 4, image_size: 32, patch_size: 8}, text_config: "
    "{model_type: llama, hidden_size: 128, intermediate_size: 256, num_hidden_layers: 2, "
    "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 32000}}";

Job job_of(const std::string& training) {
  const std::string text = "model: {hf: " + std::string(kSmall) + "}\ntraining: {seq_len: 1024, " +
                           training + ", implementation: transformers, precision: bf16}\n" +
                           "hardware: {gpu: h100-sxm-80gb, memory: 2 GiB}\n";
  Checked<Job> job = read_job(std::make_shared<const SourceText>(SourceText{"spec.yaml", text}));
  REQUIRE(job.ok());
  return std::move(job).value();
}

PlanRequest request_for(Job job, std::vector<std::int64_t> counts) {
  PlanRequest request;
  request.job = std::move(job);
  for (const char* name : {"h100-sxm-80gb", "a100-sxm-80gb"}) {
    const Checked<GpuSpec> gpu = find_gpu(name);
    REQUIRE(gpu.ok());
    request.gpus.push_back(gpu.value());
  }
  request.counts = std::move(counts);
  request.finalists = request.misses = request.gpus.size() * request.counts.size();
  return request;
}

/// Beside adapters the model is its own reference.
Job pairs_of(const std::string& training) {
  const std::string text =
      "model: {hf: {model_type: llama, num_hidden_layers: 2, hidden_size: 128, intermediate_size: "
      "256, num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 32000}}\ntraining: "
      "{seq_len: 1024, precision: bf16, implementation: {name: transformers, loop: dpo}, adapter: "
      "{lora: {rank: 8, targets: [q_proj]}}" +
      training + "}\nhardware: {gpu: h100-sxm-80gb, memory: 2 GiB}\n";
  Checked<Job> job = read_job(std::make_shared<const SourceText>(SourceText{"spec.yaml", text}));
  REQUIRE(job.ok());
  return std::move(job).value();
}

Job job_of(const PlanVerdict& row, Job job) {
  job.hardware.gpu = *row.candidate.gpu;
  job.hardware.count = row.candidate.gpus;
  job.lay_over(row.candidate.parallelism);
  job.training->micro_batch = row.candidate.micro_batch;
  job.training->gradient_accumulation = row.candidate.gradient_accumulation;
  job.training->recompute = row.candidate.recompute;
  return job;
}

}  // namespace

TEST_CASE("LLM.int8() is planned as it is estimated, to the byte") {
  const std::string text =
      "model: {hf: {model_type: llama, num_hidden_layers: 2, hidden_size: 128, intermediate_size: "
      "256, num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 32000}}\ntraining: "
      "{seq_len: 1024, global_batch: 8, precision: amp-bf16, implementation: {name: transformers, "
      "loop: trainer}, adapter: {lora: {rank: 8, targets: [q_proj]}}}\n"
      "compression: {quantize: {weights: int8}}\nhardware: {gpu: h100-sxm-80gb, memory: 2 GiB}\n";
  Checked<Job> read = read_job(std::make_shared<const SourceText>(SourceText{"spec.yaml", text}));
  REQUIRE(read.ok());
  const Job job = std::move(read).value();
  const PlanRequest request = request_for(job, {1, 2});
  const PlanAnswer answer = search_plans(request);
  REQUIRE_FALSE(answer.best.empty());
  for (const PlanVerdict& row : answer.best) {
    const JobEstimate estimate = estimate_job(job_of(row, job));
    const auto& memory = std::get<MemoryAnswer>(estimate.memory);
    CHECK(row.device == memory.of_capacity().expected);
    CHECK(row.verdict == memory.verdict);
  }
}

TEST_CASE("a model with images is planned as it is estimated, to the byte") {
  const std::string adapter = ", adapter: {lora: {rank: 8, targets: [q_proj, down_proj]}}";
  const Job job = job_of("global_batch: 64, images: 3" + GENERATE_REF(std::string(), adapter));
  const PlanRequest request = request_for(job, {1, 2});
  const PlanAnswer answer = search_plans(request);
  REQUIRE(answer.best.size() == 2);
  for (const PlanVerdict& row : answer.best) {
    const Job chosen = job_of(row, job);
    const JobEstimate estimate = estimate_job(chosen);
    const auto& memory = std::get<MemoryAnswer>(estimate.memory);
    CHECK(row.verdict == Verdict::fits);
    CHECK(row.replayed);
    CHECK(row.device == memory.of_capacity().expected);
    CHECK(row.high == memory.of_capacity().high);
    CHECK(row.candidate.micro_batch * row.candidate.gradient_accumulation == 64);
    // Twice the micro-batch does not fit, or is no divisor of the batch.
    Job more = chosen;
    more.training->micro_batch *= 2;
    more.training->gradient_accumulation /= 2;
    more.training->recompute = NoRecompute{};
    const JobEstimate of_more = estimate_job(more);
    CHECK(std::get<MemoryAnswer>(of_more.memory).verdict != Verdict::fits);
  }
  CHECK(answer.best[0].device != answer.best[1].device);
}

TEST_CASE("several GPUs of a model with images are planned as replicas, to the byte") {
  const Job job = job_of(GENERATE("global_batch: 8, images: 1, freeze: [vision_tower]",
                                  "global_batch: 8, images: 1, recompute: full, "
                                  "freeze: [vision_tower]"));
  const PlanRequest request = request_for(job, {1, 2, 8});
  const PlanAnswer answer = search_plans(request);
  REQUIRE(answer.best.size() == 6);
  for (const PlanVerdict& row : answer.best) {
    const Job chosen = job_of(row, job);
    CHECK(chosen.parallelism.data == row.candidate.gpus);
    CHECK_FALSE(chosen.parallelism.fsdp);
    const JobEstimate estimate = estimate_job(chosen);
    const auto& memory = std::get<MemoryAnswer>(estimate.memory);
    CHECK(row.device == memory.of_capacity().expected);
    CHECK(row.verdict == memory.verdict);
  }
}

TEST_CASE(
    "replicas that DistributedDataParallel ends are refused by name, beside one that answers") {
  const Job job = job_of("global_batch: 8, images: 1");
  const PlanAnswer answer = search_plans(request_for(job, {1, 2}));
  REQUIRE(answer.best.size() == 2);
  REQUIRE(answer.refused.size() == 2);
  for (const PlanVerdict& row : answer.refused) {
    CHECK(row.candidate.gpus == 2);
    CHECK_THAT(row.reason, ContainsSubstring("DistributedDataParallel ends before"));
  }
}

TEST_CASE("replicas of layers that nothing reads are answered where DDP is told to look for them") {
  Job job = job_of("micro_batch: 1, images: 1");
  job.hardware.count = job.parallelism.data = 2;
  const JobEstimate refused = estimate_job(job);
  REQUIRE(std::holds_alternative<Unavailable>(refused.memory));
  CHECK_THAT(std::get<Unavailable>(refused.memory).sentence,
             ContainsSubstring("find_unused_parameters: true"));
  job.parallelism.ddp.finds_unused = true;
  CHECK(std::holds_alternative<MemoryAnswer>(estimate_job(job).memory));
  job.parallelism.ddp.finds_unused = std::nullopt;
  job.model.vision->frozen.tower = true;
  CHECK(std::holds_alternative<MemoryAnswer>(estimate_job(job).memory));
}

TEST_CASE("of a model with images no layout, recompute or image beyond the recorded is offered") {
  Job job = job_of("global_batch: 4, images: 1");
  job.hardware.memory = Bytes(std::int64_t{1} << 26);  // 64 MiB hold no step of it
  const PlanAnswer answer = search_plans(request_for(job, {1}));
  REQUIRE(answer.refused.size() == 2);
  for (const Lever& lever : answer.refused.front().levers) {
    INFO(lever.name);
    CHECK(lever.name.find("GPUs") == std::string::npos);
    CHECK(lever.name.find("ZeRO") == std::string::npos);
  }
  CHECK_FALSE(answer.refused.front().largest_terms.empty());
}

TEST_CASE("the largest micro-batch of a model with images is where estimate changes") {
  const Job job = job_of("micro_batch: 1, images: 2, recompute: none");
  PlanRequest request = request_for(job, {1});
  request.gpus.resize(1);
  const std::vector<Largest> found = find_largest(request, Growth::micro_batch);
  REQUIRE(found.size() == 1);
  Job own = job;
  own.training->micro_batch = found[0].value;
  const JobEstimate fits = estimate_job(own);
  CHECK(std::get<MemoryAnswer>(fits.memory).verdict == Verdict::fits);
  own.training->micro_batch += 1;
  const JobEstimate beyond = estimate_job(own);
  CHECK(std::get<MemoryAnswer>(beyond.memory).verdict != Verdict::fits);
}

TEST_CASE("preferences are planned as they are estimated, in pairs, on one GPU and as replicas") {
  const Job job = pairs_of("");
  const PlanRequest request = request_for(job, {1, 4});
  const PlanAnswer answer = search_plans(request);
  REQUIRE(answer.best.size() == 4);
  for (const PlanVerdict& row : answer.best) {
    const JobEstimate estimate = estimate_job(job_of(row, job));
    const auto& memory = std::get<MemoryAnswer>(estimate.memory);
    CHECK(row.candidate.parallelism.data == row.candidate.gpus);
    CHECK(row.candidate.micro_batch % 2 == 0);
    CHECK(row.device == memory.of_capacity().expected);
  }
  PlanRequest one = request_for(pairs_of(", recompute: none"), {1});
  one.gpus.resize(1);
  const std::vector<Largest> found = find_largest(one, Growth::micro_batch);
  REQUIRE(found.size() == 1);
  CHECK(found[0].value > 0);
  CHECK(found[0].value % 2 == 0);
}

}  // namespace memest
