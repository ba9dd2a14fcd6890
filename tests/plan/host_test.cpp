// The host is finite: in a search, in an estimate and in what a file is held to.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "../draws.hpp"
#include "candidates.hpp"
#include "jobs.hpp"
#include "memest/plan/budget.hpp"
#include "memest/plan/search.hpp"
#include "memest/reader/catalog.hpp"

namespace memest {
namespace {

using test::job_of;
using test::llama;

PlanRequest request_for(Job job, const char* gpu, std::vector<std::int64_t> counts) {
  PlanRequest request;
  request.job = std::move(job);
  request.gpus = {find_gpu(gpu).value()};
  request.counts = std::move(counts);
  return request;
}

}  // namespace

TEST_CASE("A model that one host cannot hold is refused with what the host lacks") {
  const PlanAnswer answer = search_plans(request_for(
      llama("seq_len: 1024, global_batch: 8, precision: mixed, recompute: full"), "rtx-4090", {1}));
  CHECK(answer.best.empty());
  REQUIRE(answer.refused.size() == 1);
  const PlanVerdict& refused = answer.refused.front();
  CHECK(refused.verdict == Verdict::does_not_fit);
  REQUIRE(refused.host);
  CHECK(refused.device <= refused.capacity);
  CHECK(refused.reason == "needs 77.7 GiB more of its host: 139.7 of the 62.0 GiB that a node has");
  for (const Lever& lever : refused.levers)
    CHECK((lever.name.starts_with("2 GPUs") || !lever.fits));
  const auto reason =
      std::ranges::find(answer.reasons, "does not fit its host", &RefusedCandidates::reason);
  REQUIRE(reason != answer.reasons.end());
  CHECK(reason->candidates > 0);
}

TEST_CASE("What a search offloads its hosts hold, by estimate_job as well") {
  constexpr int kDraws = 48;
  test::Draws draws(20260801);
  int offloads = 0;
  int turned = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::string model =
        test::Text()
        << "model: {family: decoder, layers: " << draws.one_of(8, 24, 40)
        << ", hidden_size: " << draws.one_of(2048, 4096)
        << ", heads: 16, kv_heads: 8, ffn_size: 8192, vocab_size: 32000, activation: swiglu, norm: "
           "rmsnorm, position: rope}\n";
    const std::string training = test::Text()
                                 << "training: {seq_len: 1024, global_batch: 16, precision: "
                                 << draws.one_of("mixed", "amp-bf16", "bf16") << "}\n";
    const std::string host = test::Text()
                             << "hardware: {host_memory: " << draws.one_of(16, 48, 96, 192, 768)
                             << " GiB}\n";
    INFO(model << training << host);
    const char* gpu = draws.one_of("rtx-4090", "l40s", "rtx-3080");
    const std::int64_t count = draws.one_of(1, 2, 16);
    PlanRequest request = request_for(test::job_from(model + training + host), gpu, {count});
    const PlanAnswer answer = search_plans(request);
    for (const PlanVerdict& plan : answer.best) {
      if (plan.verdict != Verdict::fits || !plan.host) continue;
      ++offloads;
      CHECK(plan.host->of_node() <= *request.job.hardware.host_memory);
      Job job = job_of(request, plan.candidate);
      const JobEstimate estimate = estimate_job(job);
      const auto& memory = std::get<MemoryAnswer>(estimate.memory);
      CHECK(memory.host_need->of_node() == plan.host->of_node());
      CHECK(memory.host_need->verdict() == Verdict::fits);
      job.hardware.host_memory = plan.host->of_node() - Bytes(1);
      const JobEstimate full = estimate_job(job);
      const auto& held = std::get<MemoryAnswer>(full.memory);
      CHECK(held.overall() == Verdict::does_not_fit);
      const auto lines = hold_to_budget(job, full);
      const auto line = std::ranges::find(lines, BudgetItem::host_memory, &BudgetLine::item);
      REQUIRE(line != lines.end());
      CHECK(line->status == BudgetStatus::over);
      // With a byte less this plan is none.
      request.job.hardware.host_memory = job.hardware.host_memory;
      for (const PlanVerdict& other : search_plans(request).best) {
        CHECK((!other.host || other.host->of_node() < plan.host->of_node()));
        ++turned;
      }
    }
  }
  CHECK(offloads > kDraws / 6);
  CHECK(turned > 0);
}

}  // namespace memest
