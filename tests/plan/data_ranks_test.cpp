// Data ranks step other pieces of the parameters: a job fits if all of them fit.
#include "memest/memory/data_ranks.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <string>
#include <variant>

#include "drawn_jobs.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/report/estimate_report.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::DrawnJobs;
using test::memory_of;

struct Sharing {
  std::string training;
  std::string parallelism;
  bool stages = false;
};

/// Under what cuts flat tensors of parameters, with so many ranks.
Sharing drawn_sharing(DrawnJobs& draw, const std::string& ranks) {
  switch (draw.one_of(0, 1, 2, 3, 4)) {
    case 0:
      return {"precision: mixed, implementation: transformers",
              "zero: " + std::string(draw.one_of("1", "2")) +
                  ", deepspeed: {reduce_bucket_size: 500000}, data: " + ranks};
    case 1:
      return {"precision: fsdp2-bf16, implementation: transformers",
              "zero: 3, fsdp: {version: 1}, data: " + ranks};
    case 2:
      return {"precision: megatron, implementation: {name: megatron, layers: local}",
              "distributed_optimizer: true, pipeline: 2, data: " + ranks, true};
    default:
      return {"precision: megatron, implementation: {name: megatron, layers: local}",
              "distributed_optimizer: true, data: " + ranks};
  }
}

Job drawn_job(DrawnJobs& draw, std::int64_t ranks) {
  const Sharing sharing = drawn_sharing(draw, std::to_string(ranks));
  const std::int64_t heads = draw.one_of(4, 8, 12);
  const std::int64_t layers = draw.one_of(1, 2, 3) * (sharing.stages ? 2 : 1);
  return test::job_from(
      test::Text() << "model: {family: decoder, layers: " << layers
                   << ", hidden_size: " << heads * 128 << ", heads: " << heads
                   << ", kv_heads: 4, ffn_size: " << heads * 128 * draw.one_of(2, 3)
                   << ", vocab_size: " << draw.one_of(8000, 32000, 50304)
                   << ", activation: swiglu, norm: rmsnorm, position: rope, max_positions: 2048}\n"
                      "training: {micro_batch: "
                   << draw.one_of(1, 2) << ", seq_len: " << draw.one_of(512, 2048)
                   << ", recompute: " << draw.one_of("none", "full")
                   << ", gradient_accumulation: 2, " << sharing.training << "}\nparallelism: {"
                   << sharing.parallelism << "}\nhardware: {gpu: h200-sxm-141gb, count: "
                   << ranks * (sharing.stages ? 2 : 1) << "}\n");
}

/// A limit near what its first rank reserves.
void limit_memory(Job& job, DrawnJobs& draw) {
  const MemoryAnswer first = memory_of(estimate_job(job, 0));
  const double share = draw.one_of(0.9, 0.97, 1.0, 1.03, 1.1, 1.2);
  job.hardware.memory = Bytes(static_cast<std::int64_t>(first.reserved()->as_double() * share));
}

/// Of all its ranks, each replayed by itself.
struct WorstOfAll {
  Verdict verdict = Verdict::fits;
  Bytes device;  ///< of those with that verdict
};
WorstOfAll worst_of_all(const Job& job) {
  WorstOfAll worst;
  for (std::int64_t rank = 0; rank < data_ranks_of(job); ++rank) {
    const MemoryAnswer memory = memory_of(estimate_job(job, rank));
    CHECK(memory.ranks.data.worst == rank);
    const Verdict verdict = worse_of(worst.verdict, memory.verdict);
    if (verdict != worst.verdict) worst = {verdict, Bytes()};
    if (memory.verdict == verdict) worst.device = std::max(worst.device, memory.device());
  }
  return worst;
}

std::string paragraphs_of(const Page& page) {
  std::string text;
  for (const Part& part : page.parts) {
    if (const auto* paragraph = std::get_if<Paragraph>(&part)) text += paragraph->text + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("the verdict of an estimate is that of the worst of all data ranks") {
  DrawnJobs draw(41);
  int refused = 0;
  int on_other_ranks = 0;
  for (int i = 0; i < 80; ++i) {
    const std::int64_t ranks = draw.one_of(2, 3, 4, 6, 8, 12, 16);
    Job job = drawn_job(draw, ranks);
    limit_memory(job, draw);
    INFO(i << ": " << name_of(job.training->implementation.framework) << " on " << ranks);
    const MemoryAnswer memory = memory_of(estimate_job(job));
    REQUIRE(memory.replayed() != nullptr);
    const WorstOfAll worst = worst_of_all(job);
    CHECK(memory.verdict == worst.verdict);
    // Behind a refusal, and where the others fit by far, those that stand out are enough.
    if (ranks <= 8) CHECK(memory.device() == worst.device);
    if (memory.verdict == Verdict::does_not_fit) ++refused;
    if (memory.ranks.data.worst > 0) ++on_other_ranks;
  }
  CHECK(refused > 10);
  CHECK(on_other_ranks > 20);
}

TEST_CASE("the largest micro-batch fits on every data rank, and the next does not on one") {
  DrawnJobs draw(42);
  for (int i = 0; i < 12; ++i) {
    Job job = drawn_job(draw, draw.one_of(2, 3, 5, 8));
    limit_memory(job, draw);
    JobEstimate estimate = estimate_job(job);
    find_largest_micro_batch(job, estimate);
    const std::int64_t largest = memory_of(estimate).largest_micro_batch.value();
    INFO(i << ": " << name_of(job.training->implementation.framework) << ", largest " << largest);
    job.training->micro_batch = largest;
    if (largest > 0) CHECK(worst_of_all(job).verdict == Verdict::fits);
    job.training->micro_batch = largest + 1;
    CHECK(worst_of_all(job).verdict != Verdict::fits);
  }
}

TEST_CASE("an answer names the data rank that is not the first") {
  // Recorded: 20,149,436,416 reserved on data rank 0, 24,352,129,024 on 19 and 31.
  const Job job = test::job_from(
      "model: {family: decoder, layers: 12, hidden_size: 1024, heads: 8, kv_heads: 8, ffn_size: "
      "3584, vocab_size: 128256, activation: swiglu, norm: rmsnorm, position: rope, "
      "max_positions: 4096, tied_embeddings: true}\n"
      "training: {seq_len: 4096, micro_batch: 2, gradient_accumulation: 2, precision: megatron, "
      "recompute: none, steps: 3, implementation: {name: megatron, attention: unfused, layers: "
      "local}}\nparallelism: {data: 32, distributed_optimizer: true}\n"
      "hardware: {gpu: h200-sxm-141gb, count: 32}\n");
  const JobEstimate estimate = estimate_job(job);
  CHECK(memory_of(estimate).reserved() == Bytes(24'352'129'024));
  CHECK(memory_of(estimate_job(job, 0)).reserved() == Bytes(20'149'436'416));
  const Report report = report_estimate(job, estimate, {});
  CHECK_THAT(
      paragraphs_of(report.page),
      ContainsSubstring("Fits: peak 24.1 GiB a GPU (23.5 to 25.0) of 139.8 GiB, on data rank "
                        "19.\n") &&
          ContainsSubstring("Data ranks step other pieces of the parameters, which take "
                            "other blocks: of 32 ranks 8 were replayed, and these bytes are "
                            "data rank 19's, which takes most.\n"));
  CHECK_THAT(report.json, ContainsSubstring("\"data_rank\": {\n          \"worst\": 19,"));
}

}  // namespace memest
