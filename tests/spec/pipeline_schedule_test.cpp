// The textbook's properties of pipeline schedules (Narayanan et al. 2021, "Efficient Large-Scale
// Language Model Training on GPU Clusters Using Megatron-LM", section 2.2).
#include "memest/spec/parallel/pipeline_schedule.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../draws.hpp"

namespace memest {
namespace {

/// Whole numbers: sums of them are exact.
constexpr StageSeconds kStage{.forward = 3, .backward = 5, .weights = 2};

/// What a rank works in a step.
double work_of(const PipelinePlace& place, std::int64_t micro_batches) {
  return static_cast<double>(micro_batches * place.chunks) * (kStage.forward + kStage.backward);
}

double waiting_of(Schedule schedule, const PipelinePlace& place, std::int64_t micro_batches) {
  const PipelineStep step{schedule, place.ranks, place.chunks, micro_batches};
  const std::vector<StageSeconds> stages(static_cast<std::size_t>(place.ranks * place.chunks),
                                         kStage);
  const double simulated = makespan(step, stages);
  CHECK(closed_makespan(step, stages) == simulated);
  return simulated - work_of(place, micro_batches);
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
  CHECK(stages_of({12, {.pipeline = 3}, 0}, {3, 1, 1}) == std::vector<LayerSpan>{{4, 4}});
  CHECK(stages_of({12, {.pipeline = 3, .virtual_stages = 2}, 0}, {3, 1, 2}) ==
        std::vector<LayerSpan>{{2, 2}, {8, 2}});
  std::set<std::int64_t> layers;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    for (const LayerSpan& span :
         stages_of({32, {.pipeline = 4, .virtual_stages = 2}, 0}, {4, rank, 2})) {
      for (std::int64_t i = 0; i < span.count; ++i) layers.insert(span.first + i);
    }
  }
  CHECK(layers.size() == 32);
}

TEST_CASE("ends of their own sizes leave the rest to the other stages, in order and without gaps") {
  const StageSplit both(61, {.pipeline = 16, .first_stage_layers = 4, .last_stage_layers = 1}, 0);
  CHECK(both.stage(0) == LayerSpan{0, 4});
  CHECK(both.stage(15) == LayerSpan{60, 1});
  CHECK(StageSplit(11, {.pipeline = 4, .last_stage_layers = 2}, 0).stage(1) == LayerSpan{3, 3});
  std::int64_t next = 0;
  for (std::int64_t stage = 0; stage < 16; ++stage) {
    const LayerSpan span = both.stage(stage);
    CHECK(span.first == next);
    if (stage > 0 && stage < 15) CHECK(span.count == 4);
    next += span.count;
  }
  CHECK(next == 61);
}

TEST_CASE("the ends of a model count as layers where a framework says so") {
  // torchtitan 0.2.2, generate_llm_fqn_per_model_part(4, 32): 34 / 4 is 8, the first two have one
  // more.
  const StageSplit split(32, {.pipeline = 4}, 1);
  CHECK(split.stage(0) == LayerSpan{0, 8});
  CHECK(split.stage(1) == LayerSpan{8, 9});
  CHECK(split.stage(2) == LayerSpan{17, 8});
  CHECK(split.stage(3) == LayerSpan{25, 7});
}

/// Megatron-core 0.16, get_num_layers_to_build() without a list: the chunk's layers.
std::int64_t layers_to_build(std::int64_t layers, const Parallelism& p, std::int64_t rank,
                             std::int64_t chunk) {
  const std::int64_t last = p.pipeline - 1;
  std::int64_t of_rank = 0;
  if (p.first_stage_layers + p.last_stage_layers > 0) {
    const std::int64_t left =
        p.pipeline - (p.first_stage_layers > 0 ? 1 : 0) - (p.last_stage_layers > 0 ? 1 : 0);
    of_rank = left > 0 ? (layers - p.first_stage_layers - p.last_stage_layers) / left : 0;
    if (rank == 0 && p.first_stage_layers > 0) of_rank = p.first_stage_layers;
    if (rank == last && p.last_stage_layers > 0) of_rank = p.last_stage_layers;
  } else {
    of_rank =
        (layers + (p.account_for_embedding ? 1 : 0) + (p.account_for_loss ? 1 : 0)) / p.pipeline;
  }
  std::int64_t count = of_rank / p.virtual_stages;
  if (p.account_for_embedding && rank == 0 && chunk == 0) --count;
  if (p.account_for_loss && rank == last && chunk + 1 == p.virtual_stages) --count;
  return count;
}

TEST_CASE("Megatron's splits have the layers that its chunks build, all of them, in order") {
  test::Draws draws(19);
  const auto between = [&draws](std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(draws.below(static_cast<std::size_t>(most - least + 1)));
  };
  for (int i = 0; i < 500; ++i) {
    Parallelism layout;
    layout.pipeline = between(2, 6);
    layout.virtual_stages = between(1, 4);
    const std::int64_t v = layout.virtual_stages;
    std::int64_t layers = v * layout.pipeline * between(1, 5);
    if (draws.one_of(true, false)) {
      const std::int64_t middle = v * between(1, 4);
      layers = middle * layout.pipeline;
      if (draws.one_of(true, false)) {
        layout.first_stage_layers = v * between(1, 5);
        layers += layout.first_stage_layers - middle;
      }
      if (draws.one_of(true, false)) {
        layout.last_stage_layers = v * between(1, 5);
        layers += layout.last_stage_layers - middle;
      }
    } else {
      layout.account_for_embedding = draws.one_of(true, false);
      layout.account_for_loss = draws.one_of(true, false);
      layers -= (layout.account_for_embedding ? 1 : 0) + (layout.account_for_loss ? 1 : 0);
    }
    INFO(layers << " layers, " << layout.pipeline << " x " << v << ", " << layout.first_stage_layers
                << " first, " << layout.last_stage_layers << " last");
    const StageSplit split(layers, layout, 0);
    REQUIRE(split.stages() == layout.pipeline * v);
    Parallelism listed{.pipeline = layout.pipeline, .virtual_stages = v};
    std::int64_t next = 0;
    for (std::int64_t stage = 0; stage < split.stages(); ++stage) {
      const LayerSpan span = split.stage(stage);
      CHECK(span.first == next);
      CHECK(span.count ==
            layers_to_build(layers, layout, stage % layout.pipeline, stage / layout.pipeline));
      next += span.count;
      listed.stage_layers.push_back(span.count);
    }
    CHECK(next == layers);
    const StageSplit again(layers, listed, 0);
    for (std::int64_t stage = 0; stage < split.stages(); ++stage) {
      CHECK(again.stage(stage) == split.stage(stage));
    }
  }
}

TEST_CASE("messages beside the work lengthen an interleaved step by one way there and back") {
  // In between, warm-ups of 2(p - i - 1) forwards leave time from a message to its use.
  for (std::int64_t ranks = 2; ranks <= 5; ++ranks) {
    for (std::int64_t chunks = 2; chunks <= 4; ++chunks) {
      const std::int64_t micro_batches = 4 * ranks;
      const PipelineStep step{Schedule::interleaved, ranks, chunks, micro_batches};
      std::vector<StageSeconds> stages(static_cast<std::size_t>(ranks * chunks), kStage);
      const double alone = makespan(step, stages);
      for (StageSeconds& stage : stages) stage.travel = 0.5;
      stages.back().travel = 0;
      const double beside = makespan(step, stages);
      INFO(ranks << " " << chunks << " " << alone << " " << beside);
      CHECK(beside == alone + 2 * 0.5 * static_cast<double>(ranks * chunks - 1));
      CHECK(closed_makespan(step, stages) == beside);
      // Waited for, each would take its time of every micro-step.
      for (StageSeconds& stage : stages) {
        stage.forward += stage.travel;
        stage.backward += stage.travel;
        stage.travel = 0;
      }
      CHECK(beside < makespan(step, stages));
    }
  }
}

/// How far the closed time of a step is off that of its schedule, as a fraction.
double distance_of(const PipelineStep& step, const std::vector<StageSeconds>& stages) {
  const double run = makespan(step, stages);
  return std::abs(closed_makespan(step, stages) - run) / run;
}

StageSeconds seconds_of(double layers) {
  return {.forward = layers, .backward = 2 * layers, .weights = layers};
}

TEST_CASE("of unequal stages the closed time of a step is that of its schedule, or near it") {
  test::Draws draws(20);
  double listed = 0;
  double counted = 0;
  for (int i = 0; i < 400; ++i) {
    const std::int64_t ranks = draws.one_of(2, 3, 4, 8);
    const std::int64_t chunks = draws.one_of(2, 3, 4);
    const std::int64_t micro_batches = ranks * draws.one_of(1, 2, 4, 16);
    std::vector<StageSeconds> stages;
    for (std::int64_t stage = 0; stage < ranks; ++stage) {
      stages.push_back(seconds_of(draws.one_of(1, 2, 2, 3)));
    }
    listed =
        std::max(listed, distance_of({Schedule::one_f_one_b, ranks, 1, micro_batches}, stages));
    // account_for_embedding, account_for_loss: the ends have a layer less, the head takes half of
    // one.
    const double layers = draws.one_of(2, 3, 4);
    stages.assign(static_cast<std::size_t>(ranks * chunks), seconds_of(layers));
    stages.front() = seconds_of(layers - 1);
    stages.back() = seconds_of(layers - 0.5);
    counted = std::max(counted,
                       distance_of({Schedule::interleaved, ranks, chunks, micro_batches}, stages));
  }
  CAPTURE(listed, counted);
  CHECK(listed <= 1e-12);
  CHECK(counted <= 0.08);
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
      REQUIRE(waiting_of(Schedule::one_f_one_b, any, micro_batches) *
                  static_cast<double>(micro_batches) ==
              static_cast<double>(ranks - 1) * work_of(any, micro_batches));
      REQUIRE(waiting_of(Schedule::gpipe, any, micro_batches) ==
              waiting_of(Schedule::one_f_one_b, any, micro_batches));
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
        REQUIRE(waiting_of(Schedule::interleaved, any, micro_batches) *
                    static_cast<double>(micro_batches * chunks) ==
                static_cast<double>(ranks - 1) * work_of(any, micro_batches));
      }
    }
  }
}

TEST_CASE("zero bubble: weights' gradients fill what 1F1B waits, with as much in flight") {
  for (std::int64_t ranks = 2; ranks <= 6; ++ranks) {
    for (std::int64_t micro_batches = ranks; micro_batches <= 3 * ranks; ++micro_batches) {
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const PipelinePlace place{ranks, rank, 1};
        REQUIRE(most_in_flight(actions_of(Schedule::zero_bubble, place, micro_batches)) <=
                std::min(ranks, micro_batches));
      }
      // (p - 1)(F + B - W) for (p - 1)(F + B + W), B of the inputs alone
      const PipelinePlace any{ranks, 0, 1};
      const double inputs = kStage.backward - kStage.weights;
      const double waiting = waiting_of(Schedule::zero_bubble, any, micro_batches);
      REQUIRE(waiting ==
              static_cast<double>(ranks - 1) * (kStage.forward + inputs - kStage.weights));
      REQUIRE(waiting < waiting_of(Schedule::one_f_one_b, any, micro_batches));
    }
  }
}

/// "1F0 1I0 1W0 1B1": stage, what runs, micro-batch.
std::string text_of(const std::vector<PipelineAction>& actions, const PipelinePlace& place) {
  std::string text;
  for (const PipelineAction& action : actions) {
    if (!text.empty()) text += ' ';
    text += std::to_string(stage_index(place, action.chunk));
    text += action.forward                        ? 'F'
            : action.part == BackwardPart::whole  ? 'B'
            : action.part == BackwardPart::inputs ? 'I'
                                                  : 'W';
    text += std::to_string(action.micro_batch);
  }
  return text;
}

TEST_CASE("zero bubble of several chunks is PyTorch's ScheduleInterleavedZeroBubble") {
  // pipeline_order of PyTorch 2.11.0, without its bubbles.
  const PipelinePlace first{2, 0, 2};
  CHECK(text_of(actions_of(Schedule::zero_bubble, first, 4), first) ==
        "0F0 0F1 2F0 2F1 2I0 2W0 0F2 2I1 2W1 0F3 0I0 0W0 2F2 0I1 0W1 2F3 2I2 2W2 2I3 2W3 0I2 0W2 "
        "0I3 0W3");
  const PipelinePlace second{2, 1, 2};
  CHECK(text_of(actions_of(Schedule::zero_bubble, second, 4), second) ==
        "1F0 1F1 3F0 3I0 3F1 3I1 3W0 1F2 1I0 3W1 1F3 1I1 1W0 3F2 3I2 1W1 3F3 3I3 3W2 1I2 3W3 1I3 "
        "1W2 1W3");
}

TEST_CASE("zero bubble of several chunks: as much in flight as the closed form says") {
  for (std::int64_t ranks = 2; ranks <= 5; ++ranks) {
    for (std::int64_t chunks = 1; chunks <= 3; ++chunks) {
      for (std::int64_t rounds = 2; rounds <= 4; ++rounds) {
        const std::int64_t micro_batches = ranks * rounds;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          const PipelinePlace place{ranks, rank, chunks};
          const auto actions = actions_of(Schedule::zero_bubble, place, micro_batches);
          REQUIRE(most_in_flight(actions) ==
                  most_in_flight(Schedule::zero_bubble, place, micro_batches));
        }
        const std::vector<StageSeconds> stages(static_cast<std::size_t>(ranks * chunks), kStage);
        const PipelineStep step{Schedule::zero_bubble, ranks, chunks, micro_batches};
        const double ratio = closed_makespan(step, stages) / makespan(step, stages);
        INFO(ranks << " " << chunks << " " << micro_batches << " " << ratio);
        REQUIRE(ratio > 0.95);
        REQUIRE(ratio < 1.05);
      }
    }
  }
}

TEST_CASE("a V goes through the ranks and back, and its ends are the first rank's") {
  CHECK(stages_of({16, {.pipeline = 4, .virtual_stages = 2}, 0}, {4, 0, 2, true}) ==
        std::vector<LayerSpan>{{0, 2}, {14, 2}});
  CHECK(stages_of({16, {.pipeline = 4, .virtual_stages = 2}, 0}, {4, 3, 2, true}) ==
        std::vector<LayerSpan>{{6, 2}, {8, 2}});
  std::set<std::int64_t> stages;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    for (std::int64_t chunk = 0; chunk < 2; ++chunk) {
      stages.insert(stage_index({4, rank, 2, true}, chunk));
    }
  }
  CHECK(stages.size() == 8);
}

TEST_CASE("zbv is PyTorch's ScheduleZBVZeroBubble") {
  // pipeline_order of PyTorch 2.11.0, without its bubbles.
  const PipelinePlace first{2, 0, 2, true};
  const PipelinePlace second{2, 1, 2, true};
  CHECK(text_of(actions_of(Schedule::zbv, first, 4), first) ==
        "0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 3F2 3I2 3W2 0I1 0W1 3F3 3I3 3W3 0I2 0W2 "
        "0I3 0W3");
  CHECK(text_of(actions_of(Schedule::zbv, second, 4), second) ==
        "1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1F3 1I1 1W1 2F3 2I2 2W2 1I2 2I3 1I3 1W2 "
        "2W3 1W3");
  // Fewer than fill the pipeline.
  CHECK(text_of(actions_of(Schedule::zbv, first, 2), first) ==
        "0F0 0F1 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 0I1 0W1");
  CHECK(text_of(actions_of(Schedule::zbv, second, 2), second) ==
        "1F0 2F0 1F1 2F1 2I0 2W0 1I0 1W0 2I1 2W1 1I1 1W1");
}

TEST_CASE("dualpipe-v is PyTorch's ScheduleDualPipeV") {
  const PipelinePlace first{3, 0, 2, true};
  CHECK(text_of(actions_of(Schedule::dual_pipe_v, first, 7), first) ==
        "0F0 0F1 0F2 0F3 0F4 5F0 5I0 5W0 5F1 5I1 5W1 5F2 0F5 5B2 5F3 0B0 0F6 5B3 5F4 0B1 5B4 5F5 "
        "0B2 5B5 5F6 0B3 5B6 0I4 0W4 0I5 0W5 0I6 0W6");
  const PipelinePlace second{3, 1, 2, true};
  CHECK(text_of(actions_of(Schedule::dual_pipe_v, second, 7), second) ==
        "1F0 1F1 1F2 4F0 1F3 4F1 4I0 4W0 4F2 1F4 4B1 4F3 1B0 1F5 4B2 4F4 1B1 1F6 4B3 4F5 1B2 4B4 "
        "4F6 1B3 4B5 1B4 4I6 1I5 4W6 1I6 1W5 1W6");
  const PipelinePlace third{3, 2, 2, true};
  CHECK(text_of(actions_of(Schedule::dual_pipe_v, third, 7), third) ==
        "2F0 3F0 2F1 3F1 2F2 3F2 2F3 3B0 3F3 2B0 2F4 3B1 3F4 2B1 2F5 3B2 3F5 2B2 2F6 3B3 3F6 2B3 "
        "3B4 2B4 3B5 2I5 3I6 2I6 2W5 3W6 2W6");
}

TEST_CASE("every rank of a V has 2·p stages' micro-batches in flight, with DualPipe one more") {
  for (std::int64_t ranks = 2; ranks <= 6; ++ranks) {
    for (std::int64_t micro_batches = 2 * ranks; micro_batches <= 6 * ranks; ++micro_batches) {
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const PipelinePlace place{ranks, rank, 2, true};
        for (const auto& [schedule, most] : {std::pair(Schedule::zbv, 2 * ranks),
                                             std::pair(Schedule::dual_pipe_v, 2 * ranks + 1)}) {
          const auto actions = actions_of(schedule, place, micro_batches);
          REQUIRE(most_in_flight(actions) == most);
          REQUIRE(most_in_flight(schedule, place, micro_batches) == most);
          const auto first_back = std::find_if(actions.begin(), actions.end(),
                                               [](const auto& action) { return !action.forward; });
          REQUIRE(warmup_of(schedule, place, micro_batches) == first_back - actions.begin());
        }
      }
    }
  }
}

TEST_CASE("zbv: equal parts leave no bubble but what fills the V") {
  for (std::int64_t ranks = 2; ranks <= 6; ++ranks) {
    for (std::int64_t micro_batches = 2 * ranks; micro_batches <= 4 * ranks; ++micro_batches) {
      const PipelineStep step{Schedule::zbv, ranks, 2, micro_batches};
      const std::vector<StageSeconds> equal(static_cast<std::size_t>(2 * ranks), {1, 2, 1});
      // The last rank begins when ranks - 1 forwards have reached it, and ends first.
      const double work = static_cast<double>(6 * micro_batches);
      REQUIRE(makespan(step, equal) == work + static_cast<double>(ranks - 1));
      REQUIRE(closed_makespan(step, equal) == makespan(step, equal));
    }
  }
}

TEST_CASE("the closed form of 1F1B is that of the simulation for any first and last stage") {
  for (std::int64_t ranks = 2; ranks <= 7; ++ranks) {
    for (std::int64_t micro_batches = 1; micro_batches <= 20; ++micro_batches) {
      for (int variant = 0; variant < 16; ++variant) {
        std::vector<StageSeconds> stages(static_cast<std::size_t>(ranks), kStage);
        stages.front().forward += variant % 4;
        stages.front().backward += 2 * (variant % 4);
        stages.back().forward += 3 * (variant / 4);
        stages.back().backward += 4 * (variant / 4);
        for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::gpipe}) {
          const PipelineStep step{schedule, ranks, 1, micro_batches};
          REQUIRE(closed_makespan(step, stages) == makespan(step, stages));
        }
      }
    }
  }
}

TEST_CASE("the closed form of interleaved stages that differ is within 5 %") {
  for (std::int64_t ranks = 2; ranks <= 6; ++ranks) {
    for (std::int64_t chunks = 2; chunks <= 4; ++chunks) {
      for (std::int64_t rounds = 1; rounds <= 4; ++rounds) {
        std::vector<StageSeconds> stages(static_cast<std::size_t>(ranks * chunks), kStage);
        stages.front().forward += 1;
        stages.back().forward += 4;
        stages.back().backward += 6;
        const PipelineStep step{Schedule::interleaved, ranks, chunks, ranks * rounds};
        const double ratio = closed_makespan(step, stages) / makespan(step, stages);
        REQUIRE(ratio > 0.95);
        REQUIRE(ratio < 1.02);
      }
    }
  }
}

}  // namespace memest
