// One job has one verdict, whoever says it: the estimate, the largest micro-batch, the check, and
// the figures of their sentences.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <string>
#include <variant>

#include "drawn_jobs.hpp"
#include "memest/memory/step_course.hpp"
#include "memest/plan/budget.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/report/estimate_report.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::DrawnJobs;
using test::memory_of;

/// The same job on a GPU with less, or more, memory than it asks for; by the driver's capacity or
/// by the allocator's own limit.
Job with_room(Job job, DrawnJobs& jobs) {
  const MemoryAnswer memory = memory_of(estimate_job(job));
  const Bytes room = jobs.room_for(memory.device() - memory.estimate.outside);
  if (jobs.one_of(true, false)) {
    job.hardware.memory = room;
  } else {
    job.hardware.gpu.capacity.value = room + memory.estimate.outside_high;
  }
  return job;
}

Verdict verdict_with(Job job, std::int64_t micro_batch) {
  job.training->micro_batch = micro_batch;
  return memory_of(estimate_job(job)).verdict;
}

std::string described(const Job& job) {
  const TrainingSpec& training = *job.training;
  return std::string(name_of(training.implementation.framework)) + " " + training.recipe.name +
         " b " + std::to_string(training.micro_batch) + " s " + std::to_string(training.seq_len) +
         " on " + std::to_string(job.hardware.count);
}

/// "1,234" as a number.
std::int64_t number_in(std::string text) {
  std::erase(text, ',');
  return std::stoll(text);
}

/// The ledger's table: its title is its first column's.
const Table& ledger_of(const Page& page) {
  const auto found = std::find_if(page.parts.begin(), page.parts.end(), [](const Part& part) {
    const auto* table = std::get_if<Table>(&part);
    return table != nullptr && table->columns.front().title == "term";
  });
  REQUIRE(found != page.parts.end());
  return std::get<Table>(*found);
}

}  // namespace

TEST_CASE("the verdict turns at the largest micro-batch") {
  DrawnJobs jobs(26);
  int fitting = 0;
  int refused = 0;
  for (int i = 0; i < 120; ++i) {
    const Job job = with_room(jobs.draw(), jobs);
    JobEstimate estimate = estimate_job(job);
    find_largest_micro_batch(job, estimate);
    const std::int64_t largest = memory_of(estimate).largest_micro_batch.value();
    INFO(i << ": " << described(job) << ", largest " << largest);
    const bool fits = memory_of(estimate).verdict == Verdict::fits;
    if (fits) CHECK(largest >= job.training->micro_batch);
    if (largest > 0) CHECK(verdict_with(job, largest) == Verdict::fits);
    CHECK(verdict_with(job, largest + 1) != Verdict::fits);
    (fits ? fitting : refused) += 1;
  }
  CHECK(fitting > 20);
  CHECK(refused > 20);
}

TEST_CASE("context ranks share a sequence: more of them take no more of it") {
  const auto per_sequence = [](const std::string& context) {
    const Job job = test::llama("seq_len: 8192, implementation: torchtitan, recompute: full",
                                "parallelism: {data: 4, context: " + context +
                                    ", fsdp: {version: 2}}\nhardware: {gpu: h100-sxm-80gb}");
    return memory_of(estimate_job(job)).simple.per_sequence;
  };
  const double half = per_sequence("2").as_double() / per_sequence("1").as_double();
  CHECK(half > 0.4);
  CHECK(half < 0.6);
}

TEST_CASE("estimate, check and the figures of the sentence say the same of one job") {
  DrawnJobs jobs(15);
  int short_of_memory = 0;
  for (int i = 0; i < 120; ++i) {
    const Job job = with_room(jobs.draw(), jobs);
    const JobEstimate estimate = estimate_job(job);
    const MemoryAnswer& memory = memory_of(estimate);
    INFO(i << ": " << described(job));
    const BytesInterval taken = memory.of_capacity();
    CHECK(taken.low <= taken.expected);
    CHECK(taken.expected <= taken.high);
    const BudgetLine line = hold_to_budget(job, estimate).front();
    REQUIRE(line.item == BudgetItem::capacity);
    CHECK((line.status == BudgetStatus::within) == (memory.verdict == Verdict::fits));
    CHECK((line.status == BudgetStatus::over) == (memory.verdict == Verdict::does_not_fit));
    CHECK(line.value - line.limit == (taken.expected - memory.capacity.bytes).as_double());
    const ReplayedSteps* steps = memory.replayed();
    if (steps == nullptr || !steps->step.replay.out_of_memory) continue;
    ++short_of_memory;
    CHECK(taken.expected > memory.capacity.bytes);
    const OutOfMemory& end = *steps->step.replay.out_of_memory;
    const Bytes outside = memory.capacity.allocator_limit ? Bytes() : memory.estimate.outside;
    const Bytes left = memory.capacity.bytes - outside - end.reserved;
    CHECK(left >= Bytes());
    CHECK(end.reserved == end.allocated + end.free_in_segments);
    constexpr Bytes kSegment(20 * kMiB);  // the most that is asked of the device for a request
    CHECK(end.requested + kSegment > left);
  }
  CHECK(short_of_memory > 10);
}

TEST_CASE("the terms that are shown add up to what is allocated and what stands beside it") {
  DrawnJobs jobs(16);
  int summed = 0;
  for (int i = 0; i < 60; ++i) {
    const Job job = jobs.draw();
    const JobEstimate estimate = estimate_job(job);
    const Report report = report_estimate(job, estimate, {"job.yaml", "1"});
    INFO(i << ": " << described(job));
    std::int64_t shown = 0;
    for (const Row& row : ledger_of(report.page).rows) {
      if (row.tone == Tone::plain) shown += number_in(row.cells[2]);
      if (row.cells[0] != "allocated") continue;
      const auto& memory = std::get<MemoryAnswer>(estimate.memory);
      CHECK(number_in(row.cells[2]) + memory.estimate.outside.value() == shown);
      ++summed;
    }
    CHECK_THAT(report.json, ContainsSubstring("\"sum_of_terms_bytes\": " + std::to_string(shown)));
  }
  CHECK(summed > 20);
}

TEST_CASE("an out-of-memory sentence names all that stands on the device") {
  const Job job = test::gpt2("seq_len: 1024, micro_batch: 64, precision: bf16",
                             "parallelism: {data: 2}\nhardware: {gpu: l4-24gb, count: 2}");
  const JobEstimate estimate = estimate_job(job);
  const std::string text = text_of(report_estimate(job, estimate, {"job.yaml", "1"}).page, {});
  std::string line = text.substr(text.find("Does not fit: runs out"));
  line = line.substr(0, line.find("\n\n"));
  std::replace(line.begin(), line.end(), '\n', ' ');
  CHECK(
      line ==
      "Does not fit: runs out of memory in layer 8 of 12, activation, half, in step 1's forward: "
      "384.0 MiB asked for, 285.0 MiB left of the 22.26 GiB of l4: 20.97 GiB reserved (20.95 GiB "
      "allocated, 17.38 MiB free in pieces of at most 11.00 MiB), 500.0 MiB CUDA context, 544.0 "
      "MiB NCCL buffers. Without a limit it allocates 70.67 GiB and reserves 76.55 GiB: 55.31 GiB "
      "too much.");
}

TEST_CASE("an out-of-memory sentence names the moment at which FSDP1 shards the model") {
  const auto line_of = [](const std::string& init) {
    const Job job = test::gpt2("seq_len: 64, micro_batch: 1, precision: fsdp2-bf16",
                               "parallelism: {data: 8, fsdp: {version: 1, init: " + init +
                                   "}}\nhardware: {gpu: l4-24gb, count: 8, memory: 320 MiB}");
    const JobEstimate estimate = estimate_job(job);
    const std::string text = text_of(report_estimate(job, estimate, {"job.yaml", "1"}).page, {});
    std::string line = text.substr(text.find("Does not fit: runs out"));
    line = line.substr(0, line.find("\n\n"));
    std::replace(line.begin(), line.end(), '\n', ' ');
    return line;
  };
  CHECK(line_of("device") ==
        "Does not fit: runs out of memory in attn.c_proj.weight 6 of 12, before the first step, "
        "before FSDP1 shards the model: 2.25 MiB asked for, 10.00 MiB left of the 320.0 MiB that "
        "hardware.memory allows: 310.0 MiB reserved (293.0 MiB allocated, 17.04 MiB free in pieces "
        "of at most 2.00 MiB). Without a limit it allocates 535.6 MiB and reserves 1.24 GiB: 952.0 "
        "MiB too much. With `parallelism.fsdp.init: host` a unit at a time is whole on the GPU.");
  CHECK(line_of("host") ==
        "Does not fit: runs out of memory in flat weights of the root unit, before the first step, "
        "while FSDP1 shards the model: 150.2 MiB asked for, 90.00 MiB left of the 320.0 MiB that "
        "hardware.memory allows: 230.0 MiB reserved (193.7 MiB allocated, 36.34 MiB free in pieces "
        "of at most 9.00 MiB). Without a limit it allocates 539.7 MiB and reserves 972.0 MiB: "
        "652.0 MiB too much.");
}

TEST_CASE("the course through the allocator holds every stream, as the replay does") {
  DrawnJobs jobs(17);
  int streams = 0;
  for (int i = 0; i < 60; ++i) {
    const Job job = jobs.draw();
    INFO(i << ": " << described(job));
    const auto answer = step_memory_of(job);
    if (!std::holds_alternative<StepMemory>(answer)) continue;  // the closed form's
    const auto& [graph, timeline, replay] = std::get<StepMemory>(answer);
    const StepCourse course = course_of(timeline, job.allocator, replay_device_of(job));
    Bytes reserved;
    for (const CoursePoint& point : course.points) reserved = std::max(reserved, point.reserved);
    CHECK(reserved == replay.statistics.reserved.peak);
    CHECK(course.points.back().allocated == replay.statistics.allocated.current);
    CHECK(course.points.back().reserved == replay.statistics.reserved.current);
    streams += std::ranges::any_of(timeline.storages, [](const Storage& storage) {
      return storage.stream != Stream::compute;
    });
  }
  CHECK(streams > 10);
}

}  // namespace memest
