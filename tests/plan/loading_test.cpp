// A data loader in every answer that has a step, or takes the host's memory.
#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <variant>

#include "../draws.hpp"
#include "candidates.hpp"
#include "jobs.hpp"
#include "memest/plan/budget.hpp"
#include "memest/plan/fit.hpp"
#include "memest/plan/search.hpp"
#include "memest/reader/catalog.hpp"

namespace memest {
namespace {

using Catch::Approx;
using test::gpt2;
using test::job_of;
using test::llama;
using test::memory_of;

const TimeEstimate& time_of(const JobEstimate& estimate) {
  return std::get<TimeEstimate>(estimate.time);
}

Job trained(const std::string& data, const std::string& rest = "") {
  return gpt2("seq_len: 1024, micro_batch: 8, precision: bf16" +
                  (data.empty() ? data : ", data: {" + data + "}"),
              "hardware: {gpu: h100-sxm-80gb}\n" + rest);
}

double seconds_of(const JobEstimate& estimate, const std::string& block) {
  for (const OpTime& op : time_of(estimate).ops) {
    if (op.block == block) return op.seconds.value();
  }
  return 0;
}

}  // namespace

TEST_CASE("a step is the longer of what it computes and what its workers make") {
  const JobEstimate alone = estimate_job(trained(""));
  const double step = time_of(alone).step.value();
  CHECK_FALSE(time_of(alone).loading);
  CHECK_FALSE(memory_of(alone).host);
  for (const std::int64_t workers : {1, 2, 4, 8, 16}) {
    const JobEstimate loaded =
        estimate_job(trained("workers: " + std::to_string(workers) + ", sample_seconds: 60 ms"));
    const TimeEstimate& time = time_of(loaded);
    const double supplied = 8 * 0.060 / static_cast<double>(workers);
    CHECK(time.step.value() == Approx(std::max(step, supplied)));
    CHECK(time.loading->supply == Approx(static_cast<double>(workers) / 0.060));
    CHECK(time.loading->demand == Approx(8 / step));
    CHECK(time.loading->utilisation ==
          Approx(std::min(1.0, time.loading->supply / time.loading->demand)));
    CHECK(time.loading->wait.value() == Approx(seconds_of(loaded, "data loader")).margin(1e-12));
    CHECK(time.low <= time.step);
    CHECK(time.step <= time.high);
  }
  const JobEstimate serial = estimate_job(trained("sample_seconds: 60 ms"));
  CHECK(time_of(serial).step.value() == Approx(step + 8 * 0.060));
}

TEST_CASE("without the time of a sample no step is answered, and nothing of it invented") {
  const JobEstimate estimate = estimate_job(trained("workers: 8, sample_bytes: 600 KiB"));
  const std::string sentence =
      "how long a sample takes to load is not known; write training.data.sample_seconds, as 4 ms";
  CHECK(std::get<Unavailable>(estimate.time).sentence == sentence);
  CHECK(std::get<Unavailable>(estimate.cost).sentence == sentence);
  CHECK(memory_of(estimate).host);
  CHECK(memory_of(estimate).verdict == Verdict::fits);
}

TEST_CASE("a loader's batches stand in the host's memory by component, as a node has it") {
  const std::string sizes =
      "workers: 4, prefetch: 3, sample_bytes: 600 KiB, sample_seconds: 1 ms, dataset_bytes: 40 GiB";
  constexpr std::int64_t kBatch = 8 * 600 * 1024;
  constexpr std::int64_t kPinned = 1 << 23;  // 4.7 MiB of one batch
  const auto host_of = [](const Job& job) { return *memory_of(estimate_job(job)).host; };
  const HostMemory plain = host_of(trained(sizes));
  REQUIRE(plain.terms.size() == 3);
  CHECK(plain.terms[0].bytes.value() == 4 * kBatch);
  CHECK(plain.terms[1].bytes.value() == (3 * 4 + 1) * kBatch);
  CHECK(plain.terms[1].formula == "(prefetch · workers + 1) · batch");
  CHECK(plain.terms[2].bytes.value() == 40 * kGiB);
  CHECK(plain.pinned() == Bytes());
  const HostMemory pinned = host_of(trained(sizes + ", pin_memory: true"));
  REQUIRE(pinned.terms.size() == 4);
  CHECK(pinned.terms[1].bytes.value() == 3 * 4 * kBatch);
  CHECK(pinned.pinned().value() == (3 * 4 + 1) * kPinned);
  // Eight ranks of a node hold eight data sets, or one.
  const std::string eight = "parallelism: {data: 8}\nhardware: {gpu: h100-sxm-80gb, count: 8}\n";
  const std::string training = "seq_len: 1024, micro_batch: 8, precision: bf16, data: {" + sizes;
  const JobEstimate copies = estimate_job(gpt2(training + "}", eight));
  const JobEstimate shared = estimate_job(gpt2(training + ", shared_dataset: true}", eight));
  const HostNeed& each = *memory_of(copies).host_need;
  const HostNeed& once = *memory_of(shared).host_need;
  CHECK(each.of_node() - once.of_node() == Bytes(7 * 40 * kGiB));
  CHECK(once.shared == Bytes(40 * kGiB));
}

TEST_CASE("a loader that its host cannot hold makes a job that does not fit") {
  const std::string data = "workers: 8, sample_bytes: 1 GiB, sample_seconds: 1 ms";
  const auto on_host = [&](const char* size) {
    return gpt2("seq_len: 1024, micro_batch: 8, precision: bf16, data: {" + data + "}",
                std::string("hardware: {gpu: h100-sxm-80gb, host_memory: ") + size + "}\n");
  };
  // 8 · 8 GiB of samples, (2 · 8 + 1) · 8 GiB of batches and 2 GiB for the process.
  CHECK(memory_of(estimate_job(on_host("203 GiB"))).overall() == Verdict::too_close_to_call);
  CHECK(memory_of(estimate_job(on_host("201 GiB"))).overall() == Verdict::does_not_fit);
  CHECK(memory_of(estimate_job(on_host("400 GiB"))).overall() == Verdict::fits);
  for (const char* size : {"60 GiB", "201 GiB", "400 GiB"}) {
    INFO(size);
    const Job job = on_host(size);
    JobEstimate estimate = estimate_job(job);
    find_largest_micro_batch(job, estimate);
    const auto& memory = memory_of(estimate);
    // 25 GiB of batches for a sequence of a micro-batch.
    const Bytes room = *job.hardware.host_memory - kHostProcess -
                       share_rounded_up(*job.hardware.host_memory, kHostKept);
    CHECK(memory.largest_micro_batch == room.value() / (25 * kGiB));
  }
}

TEST_CASE("a plan's rows wait for their loaders as the estimate of the same job does") {
  constexpr int kDraws = 12;
  test::Draws draws(20261123);
  int waiting = 0;
  int rows = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::string data = test::Text()
                             << "workers: " << draws.one_of(0, 1, 4, 16)
                             << ", sample_bytes: 1 MiB, pin_memory: " << draws.flag()
                             << ", sample_seconds: " << draws.one_of(1, 30, 900) << " ms";
    const std::string implementation =
        draws.one_of("transformers", "torchtitan", "{name: transformers, loop: trainer}");
    INFO(data << " under " << implementation);
    PlanRequest request;
    request.job = llama("seq_len: 2048, global_batch: 64, precision: amp-bf16, implementation: " +
                        implementation + ", data: {" + data + "}");
    request.gpus = {find_gpu("h100-sxm-80gb").value()};
    request.job.hardware.assumed = false;
    request.counts = {8};
    request.prices = {{.gpu = "h100-sxm-80gb",
                       .price = DollarsPerHour(3),
                       .provider = "test",
                       .source = "test",
                       .date = "",
                       .is_default = true}};
    request.finalists = request.misses = 2;
    for (const PlanVerdict& row : search_plans(request).best) {
      Job job = job_of(request, row.candidate);
      job.hardware.price = DollarsPerHour(3);
      const JobEstimate estimate = estimate_job(job);
      REQUIRE(row.host);
      CHECK(row.host->of_node() == memory_of(estimate).host_need->of_node());
      const TimeEstimate& time = std::get<TimeEstimate>(row.time);
      CHECK(time.step == time_of(estimate).step);
      CHECK(std::get<CostEstimate>(row.cost).per_step ==
            std::get<CostEstimate>(estimate.cost).per_step);
      REQUIRE(time.loading);
      if (time.loading->wait > Seconds()) ++waiting;
      ++rows;
    }
  }
  CHECK(rows >= kDraws);
  CHECK(waiting > kDraws / 4);
}

TEST_CASE("check holds a budget to the step that waits, and fit's lines do too") {
  const std::string data = "workers: 1, sample_seconds: 60 ms";
  const Job job = trained(data, "budget: {step_time: 100 ms}\n");
  const JobEstimate estimate = estimate_job(job);
  const auto lines = hold_to_budget(job, estimate);
  const auto line = std::ranges::find(lines, BudgetItem::step_time, &BudgetLine::item);
  REQUIRE(line != lines.end());
  CHECK(line->value == Approx(8 * 0.060));
  CHECK(line->status == BudgetStatus::over);
  FitRequest request{job, [&](const std::vector<std::string>&) -> Checked<Job> { return job; }};
  const auto ladder = fit_ladder(request);
  CHECK(std::get<FitLadder>(ladder).own.step->value() == Approx(8 * 0.060));
}

}  // namespace memest
