// A replay passes over micro-steps that change nothing any more: its answer is that of the run
// which follows every event (course_of).
#include "memory/timeline/repeated_parts.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "jobs.hpp"
#include "memest/memory/step_course.hpp"
#include "memest/memory/step_replay.hpp"
#include "memory/programs/write_timeline.hpp"

namespace memest::testing {
namespace {

constexpr int kDrawn = 300;
constexpr ReplayDevice kLarge{Bytes(1024 * kGiB), Bytes(1024 * kGiB), std::nullopt};

using Random = std::mt19937;

std::size_t below(Random& random, std::size_t bound) {
  return random() % bound;  // the same draw with every standard library
}

std::int64_t drawn_size(Random& random) {
  constexpr std::int64_t kSizes[] = {4,        600,       200'000,   kMiB,
                                     3 * kMiB, 11 * kMiB, 11 * kMiB, 64 * kMiB};
  return kSizes[below(random, std::size(kSizes))];
}

/// What a micro-step makes and frees: an allocation, or the free of one of the step's own, of the
/// step before, or of one two steps before.
struct Action {
  bool frees = false;
  std::int64_t bytes = 0;
  std::size_t made = 0;  ///< which of its step's
  std::uint32_t steps_ago = 0;
};

/// Equal micro-steps end what they make: each storage once, here or later, `latest` steps at most.
std::vector<Action> drawn_micro_step(Random& random, std::uint32_t latest) {
  std::vector<Action> actions;
  std::vector<std::size_t> alive;
  const std::size_t count = 3 + below(random, 12);
  for (std::size_t made = 0; made < count; ++made) {
    actions.push_back({false, drawn_size(random), made, 0});
    alive.push_back(made);
    while (!alive.empty() && below(random, 3) == 0) {
      const std::size_t which = below(random, alive.size());
      actions.push_back({true, 0, alive[which], 0});
      alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
  for (const std::size_t made : alive) {
    const auto ago = static_cast<std::uint32_t>(below(random, latest + 1));
    const std::size_t place = ago == 0 ? actions.size() : below(random, actions.size() + 1);
    actions.insert(actions.begin() + static_cast<std::ptrdiff_t>(place), {true, 0, made, ago});
  }
  return actions;
}

/// Steps of equal micro-steps between allocations that stay, or end with the step.
class TimelineWriter {
 public:
  Timeline write(Random& random) {
    const std::size_t steps = 1 + below(random, 3);
    for (std::uint16_t step = 1; step <= steps; ++step) {
      for (std::size_t i = below(random, 8); i > 0; --i) allocate(drawn_size(random));
      const std::vector<Action> actions =
          drawn_micro_step(random, 1 + static_cast<std::uint32_t>(below(random, 2)));
      std::vector<std::vector<StorageId>> made;
      const std::size_t count = 1 + below(random, 8);
      for (std::uint16_t i = 1; i <= count; ++i) write_micro_step(actions, {step, i}, made);
      for (StorageId id = 0; id < alive_.size(); ++id) {
        if (alive_[id] && below(random, 2) == 0) free(id);
      }
    }
    return std::move(timeline_);
  }

 private:
  struct Number {
    std::uint16_t step = 0;
    std::uint16_t micro_step = 0;
  };

  std::uint32_t here() const { return static_cast<std::uint32_t>(timeline_.events.size()); }

  StorageId allocate(std::int64_t bytes) {
    const auto id = static_cast<StorageId>(timeline_.storages.size());
    timeline_.storages.push_back({bytes, {}});
    timeline_.events.push_back({EventKind::allocate, id});
    alive_.push_back(true);
    return id;
  }

  void free(StorageId id) {
    timeline_.events.push_back({EventKind::free, id});
    alive_[id] = false;
  }

  void write_micro_step(const std::vector<Action>& actions, Number number,
                        std::vector<std::vector<StorageId>>& made) {
    timeline_.spans.push_back({Phase::forward, number.step, number.micro_step, here(), here()});
    made.emplace_back();
    for (const Action& action : actions) {
      if (!action.frees) {
        made.back().push_back(allocate(action.bytes));
      } else if (action.steps_ago < made.size()) {
        free(made[made.size() - 1 - action.steps_ago][action.made]);
      }
    }
    timeline_.spans.back().end = here();
  }

  Timeline timeline_;
  std::vector<bool> alive_;
};

void check_replay(const Timeline& timeline, const AllocatorSettings& settings,
                  const ReplayDevice& device) {
  const StepReplay replay = replay_steps(timeline, settings, device);
  const StepCourse course = course_of(timeline, settings, device);
  const std::size_t followed =
      replay.out_of_memory ? replay.out_of_memory->event : timeline.events.size();
  REQUIRE(course.points.size() == followed);
  Bytes allocated;
  Bytes reserved;
  std::size_t wrong_blocks = 0;
  std::uint32_t peak = 0;
  for (std::uint32_t i = 0; i < followed; ++i) {
    const CoursePoint& point = course.points[i];
    if (timeline.events[i].kind == EventKind::allocate) {
      const Bytes before = i == 0 ? Bytes() : course.points[i - 1].allocated;
      wrong_blocks += replay.blocks[timeline.events[i].storage] == point.allocated - before ? 0 : 1;
    }
    if (point.allocated > allocated) peak = i;
    allocated = std::max(allocated, point.allocated);
    reserved = std::max(reserved, point.reserved);
  }
  CHECK(wrong_blocks == 0);
  CHECK(replay.peak.event == peak);
  CHECK(replay.peak.allocated == allocated);
  CHECK(replay.statistics.reserved.peak == reserved);
  if (replay.out_of_memory || followed == 0) return;
  CHECK(replay.statistics.allocated.current == course.points.back().allocated);
  CHECK(replay.statistics.reserved.current == course.points.back().reserved);
  for (const PhaseMemory& phase : replay.phases) {
    const auto last = std::find_if(
        timeline.spans.rbegin(), timeline.spans.rend(),
        [&](const Span& span) { return span.phase == phase.phase && span.step == phase.step; });
    if (last->end == 0) continue;
    CHECK(phase.end == course.points[last->end - 1].allocated);
    CHECK(phase.reserved == course.points[last->end - 1].reserved);
  }
}

/// As much as is reserved where there is enough, or up to a fourth less: it is short somewhere.
ReplayDevice drawn_device(Random& random, const Timeline& timeline) {
  if (below(random, 2) == 0) return kLarge;
  const Bytes reserved = replay_steps(timeline, {}, kLarge).statistics.reserved.peak;
  const Bytes room =
      reserved - Bytes(reserved.value() / 4 * static_cast<std::int64_t>(below(random, 5)) / 4);
  if (below(random, 2) == 0) return {room, room, std::nullopt};
  return {Bytes(1024 * kGiB), Bytes(1024 * kGiB), room};
}

AllocatorSettings drawn_settings(Random& random) {
  AllocatorSettings settings;
  const std::size_t kind = below(random, 6);
  settings.expandable_segments = kind == 0;
  if (kind == 1) settings.max_split_size = Bytes(32 * kMiB);
  if (kind == 2) settings.garbage_collection_threshold = 0.5;
  return settings;
}

TEST_CASE("a replay passes over equal micro-steps and answers what all of them answer",
          "[replay][property]") {
  for (unsigned seed = 0; seed < kDrawn; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const Timeline timeline = TimelineWriter().write(random);
    const AllocatorSettings settings = drawn_settings(random);
    check_replay(timeline, settings, drawn_device(random, timeline));
  }
}

Job accumulating(std::int64_t micro_steps) {
  Job job = job_of("amp-bf16", "adamw");
  job.model = llama(3, 256, 8, 4, 688);
  job.training->micro_batch = 2;
  job.training->seq_len = 128;
  job.training->gradient_accumulation = micro_steps;
  return job;
}

TEST_CASE("what is replayed of a job is what all of its events make", "[replay]") {
  for (const std::int64_t micro_steps : {1, 2, 3, 7, 8, 20}) {
    INFO(micro_steps << " micro-steps");
    const Job job = accumulating(micro_steps);
    const auto timeline = std::get<Timeline>(write_timeline(lowered(job), job));
    check_replay(timeline, {}, kLarge);
    AllocatorSettings expandable;
    expandable.expandable_segments = true;
    check_replay(timeline, expandable, kLarge);
  }
}

template <class Value>
Value one_of(Random& random, std::initializer_list<Value> values) {
  return *(values.begin() + below(random, values.size()));
}

/// Over loops, wrappers and what is kept from micro-step to micro-step.
Job drawn_job(Random& random) {
  const std::size_t kind = below(random, 5);
  const bool shards = kind == 4;
  const char* recipe = shards ? one_of(random, {"fsdp2-bf16", "accelerate-fsdp2-bf16"})
                       : kind == 3
                           ? "bf16"
                           : one_of(random, {"bf16", "amp-bf16", "amp-fp16", "fp32", "mixed"});
  Job job = job_of(recipe, one_of(random, {"adamw", "adafactor", "sgd"}));
  const std::int64_t heads = one_of<std::int64_t>(random, {2, 4});
  job.model = llama(one_of<std::int64_t>(random, {1, 2, 3}), 64 * heads, heads, heads, 160);
  std::get<DecoderSpec>(job.model.architecture).tied_embeddings = below(random, 2) == 0;
  TrainingSpec& training = *job.training;
  training.micro_batch = one_of<std::int64_t>(random, {1, 3});
  training.seq_len = one_of<std::int64_t>(random, {64, 128});
  training.gradient_accumulation = one_of<std::int64_t>(random, {4, 5, 6, 8, 9, 40});
  training.steps = one_of<std::int64_t>(random, {1, 2, 3});
  training.hold_outputs = below(random, 3) == 0;
  training.clip_gradients = below(random, 2) == 0;
  if (below(random, 3) == 0) training.zero_grad = ZeroGrad::zeros;
  if (below(random, 3) == 0) training.recompute = FullRecompute{};
  training.implementation.loop = shards ? one_of(random, {LoopKind::plain, LoopKind::trainer})
                                        : one_of(random, {LoopKind::plain, LoopKind::trainer,
                                                          LoopKind::nanogpt, LoopKind::torchtitan});
  if (kind < 3) return job;
  job.parallelism.data = job.hardware.count = 4;
  if (shards) {
    job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
    job.parallelism.fsdp = FullySharded{};
  } else {  // DistributedDataParallel, or DeepSpeed
    job.parallelism.zero =
        one_of(random, {ZeroStage::none, ZeroStage::optimizer, ZeroStage::optimizer_gradients});
  }
  return job;
}

/// Where they part; "" where they do not.
std::string first_difference(const Timeline& left, const Timeline& right) {
  if (left.events != right.events) return "events";
  const bool spans = std::ranges::equal(left.spans, right.spans, [](const Span& a, const Span& b) {
    return a.phase == b.phase && a.step == b.step && a.micro_step == b.micro_step &&
           a.begin == b.begin && a.end == b.end;
  });
  if (!spans) return "spans";
  const auto same = [](const Storage& a, const Storage& b) {
    return a.bytes == b.bytes && a.stream == b.stream && a.label.holding == b.label.holding &&
           a.label.origin == b.label.origin && a.label.phase == b.label.phase &&
           a.label.step == b.label.step && a.label.place == b.label.place &&
           a.label.op == b.label.op && a.label.tensor == b.label.tensor;
  };
  if (!std::ranges::equal(left.storages, right.storages, same)) return "storages";
  return left.emptied_before == right.emptied_before ? "" : "when the cache is emptied";
}

TEST_CASE("micro-steps that are copied are those that the engine makes", "[timeline][property]") {
  std::size_t written = 0;
  for (unsigned seed = 0; seed < kDrawn; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const Job job = drawn_job(random);
    const Graph graph = lowered(job);
    const auto copied = write_timeline(graph, job, {}, EqualMicroSteps::copied);
    const auto followed = write_timeline(graph, job, {}, EqualMicroSteps::followed);
    REQUIRE(copied.index() == followed.index());
    const auto* timeline = std::get_if<Timeline>(&copied);
    if (timeline == nullptr) continue;
    ++written;
    CHECK(first_difference(*timeline, std::get<Timeline>(followed)).empty());
  }
  CHECK(written > kDrawn / 2);
}

TEST_CASE("a step's micro-steps repeat from the fourth on, or before", "[replay]") {
  const Job job = accumulating(8);
  const auto timeline = std::get<Timeline>(write_timeline(lowered(job), job));
  TimelineParts parts(timeline);
  std::size_t repeated = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) repeated += parts.repeats(i) ? 1 : 0;
  CHECK(repeated >= 2 * 5);
  CHECK_FALSE(parts.repeats(0));
  CHECK_FALSE(parts.repeats(parts.size()));
}

}  // namespace
}  // namespace memest::testing
