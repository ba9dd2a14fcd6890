#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"

namespace memest {
namespace {

/// One action of a chunk ends before another can begin: of the same micro-batch in the stage
/// before, or, of a backward, in the stage behind or its own forward. A message from stage to stage
/// takes its travel.
class Clock {
 public:
  Clock(const PipelineStep& step, std::span<const StageSeconds> stages)
      : place_{step.ranks, 0, step.chunks, is_v_shaped(step.schedule)},
        stages_(stages),
        ends_(2 * stages.size() * static_cast<std::size_t>(step.micro_batches), kNever),
        free_(static_cast<std::size_t>(step.ranks), 0) {}

  /// False where what it waits for has not run.
  bool run(std::int64_t rank, const PipelineAction& action) {
    place_.rank = rank;
    const auto stage = static_cast<std::size_t>(stage_index(place_, action.chunk));
    double begin = free_[static_cast<std::size_t>(rank)];
    const auto wait = [&](bool forward, std::size_t other, double travel) {
      const double end = end_of(forward, other, action.micro_batch);
      begin = std::max(begin, end + travel);
      return end != kNever;
    };
    const bool hands_back = !action.forward && action.part != BackwardPart::weights;
    const double to_next = stages_[stage].travel;
    if (action.forward && stage > 0 && !wait(true, stage - 1, stages_[stage - 1].travel)) {
      return false;
    }
    if (hands_back && !wait(true, stage, 0)) return false;
    if (hands_back && stage + 1 < stages_.size() && !wait(false, stage + 1, to_next)) return false;
    const double end = begin + seconds_of(action, stages_[stage]);
    if (action.part != BackwardPart::weights)
      end_of(action.forward, stage, action.micro_batch) = end;
    free_[static_cast<std::size_t>(rank)] = end;
    last_ = std::max(last_, end);
    return true;
  }

  [[nodiscard]] double last() const { return last_; }

 private:
  static constexpr double kNever = -1;

  static double seconds_of(const PipelineAction& action, const StageSeconds& stage) {
    if (action.forward) return stage.forward;
    switch (action.part) {
      case BackwardPart::whole:
        return stage.backward;
      case BackwardPart::inputs:
        return stage.backward - stage.weights;
      case BackwardPart::weights:
        return stage.weights;
    }
    unreachable("a backward has two parts");
  }

  double& end_of(bool forward, std::size_t stage, std::int64_t micro_batch) {
    const std::size_t at = static_cast<std::size_t>(micro_batch) * stages_.size() + stage;
    return ends_[2 * at + (forward ? 0 : 1)];
  }

  PipelinePlace place_;  // of the rank that runs
  std::span<const StageSeconds> stages_;
  std::vector<double> ends_;
  std::vector<double> free_;
  double last_ = 0;
};

double work_of(const StageSeconds& stage) { return stage.forward + stage.backward; }

/// Each micro-batch follows the one before through the slowest stage, forward and then back.
double gpipe_makespan(std::int64_t micro_batches, std::span<const StageSeconds> stages) {
  StageSeconds slowest;
  double once = 0;
  for (const StageSeconds& stage : stages) {
    slowest.forward = std::max(slowest.forward, stage.forward);
    slowest.backward = std::max(slowest.backward, stage.backward);
    once += work_of(stage);
  }
  return once + static_cast<double>(micro_batches - 1) * work_of(slowest);
}

/// The longest path that one stage holds up, those before it waiting to begin and to end. The stage
/// works all micro-batches without a pause; or it waits for the first to come back from the stages
/// behind, or for the last, or for both, and alternates meanwhile.
double path_through(const StageSeconds& stage, double before, double behind,
                    std::pair<double, double> micro_batches) {
  const auto [all, alternating] = micro_batches;
  const double some = std::max(alternating, 1.0);
  double longest = before + all * work_of(stage);
  longest = std::max(longest, before + behind + some * stage.forward + all * stage.backward);
  longest = std::max(longest, before + behind + all * stage.forward + some * stage.backward);
  if (alternating <= 0) return longest;
  return std::max(longest, before + 2 * behind + alternating * work_of(stage));
}

double one_f_one_b_makespan(std::int64_t micro_batches, std::span<const StageSeconds> stages) {
  double behind = 0;
  for (const StageSeconds& stage : stages) behind += work_of(stage);
  double before = 0;
  double longest = behind;
  const auto all = static_cast<double>(micro_batches);
  double alternating = all - static_cast<double>(stages.size()) + 1;
  for (const StageSeconds& stage : stages) {
    behind -= work_of(stage);
    longest = std::max(longest, path_through(stage, before, behind, {all, alternating}));
    before += work_of(stage);
    alternating += 1;
  }
  return longest;
}

/// A rank works all micro-batches of its chunks; it begins behind the first chunks of the ranks
/// before and ends before the last ones of those behind. Messages are waited for while the pipeline
/// fills and empties, when the first micro-batch goes through all stages and the last one back.
double interleaved_makespan(const PipelineStep& step, std::span<const StageSeconds> stages) {
  double behind = 0;
  const std::int64_t last_chunk = (step.chunks - 1) * step.ranks;
  const auto at = [&](std::int64_t stage) {
    return work_of(stages[static_cast<std::size_t>(stage)]);
  };
  double travels = 0;
  for (const StageSeconds& stage : stages) travels += 2 * stage.travel;
  for (std::int64_t rank = 0; rank < step.ranks; ++rank) behind += at(last_chunk + rank);
  double before = 0;
  double longest = 0;
  for (std::int64_t rank = 0; rank < step.ranks; ++rank) {
    double own = 0;
    for (std::int64_t chunk = 0; chunk < step.chunks; ++chunk) own += at(chunk * step.ranks + rank);
    behind -= at(last_chunk + rank);
    longest = std::max(longest, before + static_cast<double>(step.micro_batches) * own + behind);
    before += at(rank);
  }
  return longest + travels;
}

/// ZB-H1: the weights' gradients fill what the others wait, which is for their first chunks.
double zero_bubble_makespan(const PipelineStep& step, std::span<const StageSeconds> stages) {
  const auto waits = [&](std::int64_t rank) {
    const StageSeconds& first = stages[static_cast<std::size_t>(rank)];
    return work_of(first) - 2 * first.weights;
  };
  double most = 0;
  double waiting = 0;
  double of_slowest = 0;
  for (std::int64_t rank = 0; rank < step.ranks; ++rank) {
    double own = 0;
    for (std::int64_t chunk = 0; chunk < step.chunks; ++chunk) {
      own += work_of(stages[static_cast<std::size_t>(chunk * step.ranks + rank)]);
    }
    if (own > most) of_slowest = waits(rank);
    most = std::max(most, own);
    waiting += waits(rank);
  }
  return static_cast<double>(step.micro_batches) * most + waiting - of_slowest;
}

}  // namespace

double makespan(const PipelineStep& step, std::span<const StageSeconds> stages) {
  // One stage alone waits for nobody.
  if (stages.size() == 1) return static_cast<double>(step.micro_batches) * work_of(stages.front());
  Clock clock(step, stages);
  struct Rank {
    std::vector<PipelineAction> actions;
    std::size_t done = 0;
  };
  std::vector<Rank> ranks;
  for (std::int64_t rank = 0; rank < step.ranks; ++rank) {
    const PipelinePlace place{step.ranks, rank, step.chunks, is_v_shaped(step.schedule)};
    ranks.push_back({actions_of(step.schedule, place, step.micro_batches)});
  }
  for (bool runs = true; runs;) {
    runs = false;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      auto& [actions, done] = ranks[rank];
      while (done < actions.size() && clock.run(static_cast<std::int64_t>(rank), actions[done])) {
        ++done;
        runs = true;
      }
    }
  }
  for (const Rank& rank : ranks) {
    expect(rank.done == rank.actions.size(), "a schedule does not wait for itself");
  }
  return clock.last();
}

double closed_makespan(const PipelineStep& step, std::span<const StageSeconds> stages) {
  switch (step.schedule) {
    case Schedule::gpipe:
      return gpipe_makespan(step.micro_batches, stages);
    case Schedule::one_f_one_b:
      return one_f_one_b_makespan(step.micro_batches, stages);
    case Schedule::interleaved:
      return interleaved_makespan(step, stages);
    case Schedule::zero_bubble:
      return zero_bubble_makespan(step, stages);
    case Schedule::zbv:
    case Schedule::dual_pipe_v:
      return makespan(step, stages);
  }
  unreachable("every schedule has a makespan");
}

}  // namespace memest
