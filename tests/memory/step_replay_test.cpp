// A timeline through the caching allocator.
#include "memest/memory/step_replay.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <numeric>

#include "jobs.hpp"

namespace memest::testing {
namespace {

constexpr ReplayDevice kDevice{Bytes(80 * kGiB), Bytes(80 * kGiB), std::nullopt};

/// Allocations of `sizes` in one phase, nothing freed.
Timeline allocations(const std::vector<std::int64_t>& sizes) {
  Timeline timeline;
  for (const std::int64_t size : sizes) {
    timeline.events.push_back(
        {EventKind::allocate, static_cast<StorageId>(timeline.storages.size())});
    timeline.storages.push_back({size, {}});
  }
  timeline.spans.push_back(
      {Phase::forward, 1, 1, 0, static_cast<std::uint32_t>(timeline.events.size())});
  return timeline;
}

Timeline of_llama(const std::string& recipe) {
  Job job = job_of(recipe, "adamw");
  job.model = llama(4, 256, 8, 4, 688);
  job.training->micro_batch = 2;
  job.training->seq_len = 128;
  return std::get<Timeline>(write_timeline(lowered(job), job));
}

TEST_CASE("what is alive at the peak adds up to it, by tensor and by holding", "[replay]") {
  for (const char* recipe : {"bf16", "amp-bf16", "mixed", "fp32"}) {
    INFO(recipe);
    const StepReplay replay = replay_steps(of_llama(recipe), {}, kDevice);
    Bytes by_tensor;
    for (const AliveStorage& alive : replay.peak.alive) by_tensor += alive.block;
    const Bytes by_holding =
        std::accumulate(replay.peak.by_holding.begin(), replay.peak.by_holding.end(), Bytes());
    CHECK(by_tensor == replay.peak.allocated);
    CHECK(by_holding == replay.peak.allocated);
    CHECK(replay.peak.allocated == replay.statistics.allocated.peak);
    CHECK_FALSE(replay.out_of_memory);
  }
}

TEST_CASE("the largest peak of a phase is that of the run", "[replay]") {
  const StepReplay replay = replay_steps(of_llama("bf16"), {}, kDevice);
  Bytes most;
  for (const PhaseMemory& phase : replay.phases) most = std::max(most, phase.peak);
  CHECK(most == replay.peak.allocated);
  CHECK(replay.phases.front().phase == Phase::model);
}

TEST_CASE("running out of memory says what fragmentation keeps", "[replay]") {
  // Two segments of 20 MiB hold two blocks of 9 MiB each; of both the second is freed.
  Timeline timeline = allocations({9 * kMiB, 9 * kMiB, 9 * kMiB, 9 * kMiB, 12 * kMiB});
  timeline.events.insert(timeline.events.end() - 1, {{EventKind::free, 1}, {EventKind::free, 3}});
  timeline.spans.back().end += 2;
  const ReplayDevice small{Bytes(80 * kGiB), Bytes(80 * kGiB), Bytes(40 * kMiB)};
  const StepReplay replay = replay_steps(timeline, {}, small);
  REQUIRE(replay.out_of_memory);
  CHECK(replay.out_of_memory->event == 6);
  CHECK(replay.out_of_memory->requested == Bytes(12 * kMiB));
  CHECK(replay.out_of_memory->free_in_segments == Bytes(22 * kMiB));
  CHECK(replay.out_of_memory->largest_free == Bytes(11 * kMiB));
}

}  // namespace
}  // namespace memest::testing
