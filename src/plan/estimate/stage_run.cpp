#include "plan/estimate/stage_run.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "memest/memory/data_ranks.hpp"
#include "plan/estimate/replayed_steps.hpp"

namespace memest {
namespace {

/// No rank of a stage is taken to reserve more than those that stand out by this part of what they
/// reserve. The most seen over 554 drawn stages is 0.09, and over the first rank alone 0.22.
constexpr double kMostSpread = 0.25;

/// Events that are written to find the worst rank: about a second. No other rank is begun beyond.
constexpr std::size_t kMostEvents = 12'000'000;

class StageReplay {
 public:
  StageReplay(const Graph& graph, const Job& job, std::int64_t pipeline_rank)
      : graph_(graph), job_(job), pipeline_rank_(pipeline_rank) {}

  std::optional<StageRun> run(StageRunEnd end) {
    run_.ranks = {0, 0, data_ranks_of(job_)};
    if (!follow(0, end)) return std::nullopt;
    // One rank that does not fit is enough for a refusal.
    if (run_.ranks.count == 1 || is_refusal(end)) return run_;
    const FollowedRanks followed = followed_data_ranks(graph_, job_, pipeline_rank_);
    for (std::size_t i = 1; i < followed.ranks.size(); ++i) {
      // Ranks that stand out are always followed; the others take at most kMostSpread more.
      if (i >= followed.outstanding && is_decided()) break;
      if (events_ > kMostEvents) break;
      if (!follow(followed.ranks[i], end)) return std::nullopt;
      if (is_refusal(end)) break;
    }
    return run_;
  }

 private:
  [[nodiscard]] bool is_refusal(StageRunEnd end) const {
    if (end == StageRunEnd::first_misfit) return run_.verdict != Verdict::fits;
    return end == StageRunEnd::first_refusal && run_.verdict == Verdict::does_not_fit;
  }
  [[nodiscard]] bool is_decided() const {
    return run_.verdict == Verdict::does_not_fit || fits_by_far(run_.most_unpressed, job_);
  }

  /// False where there is nothing to follow.
  bool follow(std::int64_t rank, StageRunEnd end) {
    auto written = write_timeline(graph_, job_, {pipeline_rank_, rank});
    auto* timeline = std::get_if<Timeline>(&written);
    if (timeline == nullptr) return false;
    events_ += timeline->events.size();
    const Bytes demand = demand_of(*timeline);
    if (run_.ranks.followed == 0) run_.demand = demand;
    // More bytes are asked for than the device has: no replay against it is needed.
    if (is_hopeless(demand, job_)) {
      const std::optional<Bytes> taken = end == StageRunEnd::worst_known
                                             ? reserved_unpressed(*timeline, job_)
                                             : std::optional(demand);
      if (taken && note(rank, Verdict::does_not_fit, *taken)) run_.worst_steps.reset();
      return taken.has_value();
    }
    if (end == StageRunEnd::first_misfit && cannot_fit(demand, job_)) {
      note(rank, Verdict::too_close_to_call, demand);
      return true;
    }
    return follow_on_device(std::move(*timeline), rank, end);
  }

  bool follow_on_device(Timeline timeline, std::int64_t rank, StageRunEnd end) {
    StepReplay run = replay_steps(timeline, job_.allocator, replay_device_of(job_));
    Bytes reserved = run.statistics.reserved.peak;
    if (end == StageRunEnd::first_misfit && run.out_of_memory) {
      note(rank, Verdict::too_close_to_call, reserved);
      return true;
    }
    const Verdict verdict = judge_run(timeline, run, job_);
    const bool refuses = verdict == Verdict::does_not_fit && end == StageRunEnd::first_refusal;
    if (was_pressed(run) && !refuses) {
      const std::optional<Bytes> freely = reserved_unpressed(timeline, job_);
      if (!freely) return false;
      run_.most_unpressed = std::max(run_.most_unpressed, *freely);
      if (run.out_of_memory) reserved = *freely;
    }
    if (note(rank, verdict, reserved) && end == StageRunEnd::worst_known) {
      run_.worst_steps.emplace(std::move(timeline), std::move(run));
    }
    return true;
  }

  /// Whether it is the worst so far.
  bool note(std::int64_t rank, Verdict verdict, Bytes reserved) {
    run_.most_unpressed = std::max(run_.most_unpressed, reserved);
    const bool is_first = run_.ranks.followed++ == 0;
    const bool is_worse = verdict == run_.verdict ? reserved > run_.reserved
                                                  : worse_of(verdict, run_.verdict) == verdict;
    if (!is_first && !is_worse) return false;
    run_.ranks.worst = rank;
    run_.verdict = verdict;
    run_.reserved = reserved;
    return true;
  }

  const Graph& graph_;
  const Job& job_;
  std::int64_t pipeline_rank_;
  std::size_t events_ = 0;
  StageRun run_;
};

}  // namespace

bool fits_by_far(Bytes most_unpressed, const Job& job) {
  return fits_freely(most_unpressed + share_rounded_up(most_unpressed, kMostSpread), job);
}

std::optional<StageRun> run_stage(const Graph& graph, const Job& job, std::int64_t pipeline_rank,
                                  StageRunEnd end) {
  if (is_beyond_replay(graph)) return std::nullopt;
  return StageReplay(graph, job, pipeline_rank).run(end);
}

}  // namespace memest
