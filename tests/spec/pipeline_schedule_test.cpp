// The textbook's properties of pipeline schedules (Narayanan et al. 2021, "Efficient Large-Scale
// Language Model Training on GPU Clusters Using Megatron-LM", section 2.2).
#include "memest/spec/pipeline_schedule.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <utility>

namespace memest {
namespace {

constexpr std::int64_t kForward = 3;
constexpr std::int64_t kBackward = 5;

/// What a rank works in a step, in the same units as the makespan.
std::int64_t work_of(const PipelinePlace& place, std::int64_t micro_batches) {
  return micro_batches * place.chunks * (kForward + kBackward);
}

std::int64_t waiting_of(Schedule schedule, const PipelinePlace& place, std::int64_t micro_batches) {
  return makespan(schedule, place, micro_batches, {kForward, kBackward}) -
         work_of(place, micro_batches);
}

/// Every chunk runs every micro-batch forward once, and backward once after it.
bool is_complete(const std::vector<PipelineAction>& actions, const PipelinePlace& place,
                 std::int64_t micro_batches) {
  std::set<std::pair<std::int64_t, std::int64_t>> forwards;
  std::set<std::pair<std::int64_t, std::int64_t>> backwards;
  for (const PipelineAction& action : actions) {
    const std::pair key(action.chunk, action.micro_batch);
    if (!action.forward && !forwards.contains(key)) return false;
    if (!(action.forward ? forwards : backwards).insert(key).second) return false;
  }
  const auto all = static_cast<std::size_t>(micro_batches * place.chunks);
  return forwards.size() == all && backwards.size() == all;
}

}  // namespace

TEST_CASE("stages lie round the ranks and hold every layer once") {
  CHECK(stages_of(12, {3, 1, 1}) == std::vector<LayerSpan>{{4, 4}});
  CHECK(stages_of(12, {3, 1, 2}) == std::vector<LayerSpan>{{2, 2}, {8, 2}});
  std::set<std::int64_t> layers;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    for (const LayerSpan& span : stages_of(32, {4, rank, 2})) {
      for (std::int64_t i = 0; i < span.count; ++i) layers.insert(span.first + i);
    }
  }
  CHECK(layers.size() == 32);
}

TEST_CASE("one forward, one backward: p - i micro-batches in flight and a bubble of (p - 1) / m") {
  for (std::int64_t ranks = 1; ranks <= 6; ++ranks) {
    for (std::int64_t micro_batches = 1; micro_batches <= 9; ++micro_batches) {
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const PipelinePlace place{ranks, rank, 1};
        const auto actions = actions_of(Schedule::one_f_one_b, place, micro_batches);
        REQUIRE(is_complete(actions, place, micro_batches));
        REQUIRE(most_in_flight(actions) == std::min(ranks - rank, micro_batches));
        REQUIRE(warmup_of(Schedule::one_f_one_b, place, micro_batches) ==
                std::min(ranks - rank - 1, micro_batches));
      }
      const PipelinePlace any{ranks, 0, 1};
      REQUIRE(waiting_of(Schedule::one_f_one_b, any, micro_batches) * micro_batches ==
              (ranks - 1) * work_of(any, micro_batches));
    }
  }
}

TEST_CASE("interleaved: the bubble shrinks by the number of chunks") {
  for (std::int64_t ranks = 2; ranks <= 4; ++ranks) {
    for (std::int64_t chunks = 2; chunks <= 4; ++chunks) {
      for (std::int64_t rounds = 2; rounds <= 4; ++rounds) {
        const std::int64_t micro_batches = ranks * rounds;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          const PipelinePlace place{ranks, rank, chunks};
          const auto actions = actions_of(Schedule::interleaved, place, micro_batches);
          REQUIRE(is_complete(actions, place, micro_batches));
          const std::int64_t warmup = 2 * (ranks - rank - 1) + (chunks - 1) * ranks;
          REQUIRE(warmup_of(Schedule::interleaved, place, micro_batches) == warmup);
          REQUIRE(most_in_flight(actions) == std::min(warmup + 1, micro_batches * chunks));
        }
        const PipelinePlace any{ranks, 0, chunks};
        // (p - 1) / (v * m) of the work
        REQUIRE(waiting_of(Schedule::interleaved, any, micro_batches) * micro_batches * chunks ==
                (ranks - 1) * work_of(any, micro_batches));
      }
    }
  }
}

}  // namespace memest
