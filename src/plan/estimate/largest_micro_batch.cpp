// The largest micro-batch of a job as written, searched by the verdict itself: the replay's where
// there is one. The closed form says only where to begin.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "memest/graph/lower.hpp"
#include "memest/memory/data_ranks.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/units/int128.hpp"
#include "plan/estimate/replayed_steps.hpp"
#include "plan/estimate/stage_run.hpp"
#include "plan/layouts/refusal.hpp"

namespace memest {
namespace {

/// The largest micro-batch that a spec may write (src/reader/keys/training.cpp).
constexpr std::int64_t kMost = 1'000'000'000;

/// Guesses along a line before the search halves: memory is nearly one.
constexpr int kGuesses = 6;

/// Times as many sequences as were tried that a guess asks for at most: where the peak does not yet
/// stand in the activations a line says nothing of those that do, and their tensors have no bound.
constexpr std::int64_t kMostGrowth = 16;

Job with_micro_batch(const Job& job, std::int64_t micro_batch) {
  Job other = job;
  if (other.training) other.training->micro_batch = micro_batch;
  // A generation has prompts, each of which has so many beams.
  if (other.inference) {
    other.inference->micro_batch = checked_multiply(micro_batch, other.inference->beams());
  }
  return other;
}

std::int64_t micro_batch_of(const Job& job) {
  return job.inference ? job.inference->prompts() : job.forward()->micro_batch;
}

/// Bytes that the allocator takes with so many sequences.
struct Taken {
  std::int64_t micro_batch = 0;
  Bytes bytes;
};

class MicroBatchSearch {
 public:
  MicroBatchSearch(const Job& job, const MemoryAnswer& worst)
      : job_(job),
        rank_{worst.ranks.rank, worst.ranks.data.worst},
        per_sequence_(worst.simple.per_sequence.as_double() *
                      static_cast<double>(job.inference ? job.inference->beams() : 1)) {
    const std::int64_t own = micro_batch_of(job);
    (worst.verdict == Verdict::fits ? fitting_ : refused_) = own;
    if (worst.replayed() != nullptr) {
      // The line is drawn to the room that is left with the margin taken off, as the verdict will
      // ask.
      const ReplayDevice device = tightest_device_of(job);
      room_ = device.limit.value_or(device.available);
      taken_.push_back({own, worst.replayed()->unpressed().statistics.reserved.peak});
    } else {
      room_ = worst.capacity.bytes - (worst.of_capacity().high - worst.estimate.allocated());
      taken_.push_back({own, worst.estimate.allocated()});
    }
  }

  std::int64_t run() {
    for (;;) {
      search();
      if (fitting_ == 0) return 0;
      const std::optional<JobRank> other = rank_that_refuses(fitting_);
      // Only the rank that took most was searched: another one may take most at the size that was
      // found.
      if (!other) return fitting_;
      rank_ = *other;
      refused_ = fitting_;
      fitting_ = 0;
    }
  }

 private:
  /// Until the rank runs with `fitting_` and not with `refused_`, its neighbour.
  void search() {
    for (int guesses = 0; refused_ - fitting_ > 1; ++guesses) {
      std::int64_t next = fitting_ + (refused_ - fitting_) / 2;
      if (guesses < kGuesses) {
        next = guess();
      } else if (refused_ > kMost) {
        next = std::min(2 * fitting_ + 1, kMost);
      }
      (fits(next, rank_) ? fitting_ : refused_) = next;
    }
  }

  /// The guess where the line through the last two known points, or with the closed form's slope,
  /// meets the room.
  [[nodiscard]] std::int64_t guess() const {
    const Taken& last = taken_.back();
    double slope = per_sequence_;
    if (taken_.size() > 1) {
      const Taken& before = taken_[taken_.size() - 2];
      slope = (last.bytes - before.bytes).as_double() /
              static_cast<double>(last.micro_batch - before.micro_batch);
    }
    auto sequences = static_cast<double>(last.micro_batch);
    // Regula falsi: where memory does not grow between two points, the size is doubled.
    sequences += slope > 0 ? (room_ - last.bytes).as_double() / slope : sequences;
    const auto most = static_cast<double>(std::min(last.micro_batch * kMostGrowth, kMost));
    const double within = std::clamp(sequences, 0.0, most);
    // Strictly inside the interval, so every guess shrinks it.
    return std::clamp(static_cast<std::int64_t>(within), fitting_ + 1, refused_ - 1);
  }

  bool fits(std::int64_t micro_batch, JobRank rank) {
    const Job job = with_micro_batch(job_, micro_batch);
    const auto lowered = lower(job.model, policy_of(job, rank.pipeline));
    if (!std::holds_alternative<Graph>(lowered)) return false;
    const auto& graph = std::get<Graph>(lowered);
    if (is_beyond_replay(graph)) return false;
    const auto timeline = write_timeline(graph, job, rank);
    if (const auto* events = std::get_if<Timeline>(&timeline)) {
      const SureRun run = surely_runs(*events, job);
      if (run.reserved) note({micro_batch, *run.reserved});
      return run.runs;
    }
    if (job.inference && job.inference->generation) return false;  // nothing else answers
    const Ledger ledger = write_ledger(graph, job, rank.pipeline);
    const MemoryEstimate estimate = estimate_memory(ledger, ledger.bindings);
    note({micro_batch, estimate.allocated()});
    return judge(estimate, capacity_of(job.hardware)) == Verdict::fits;
  }

  void note(const Taken& taken) {
    // Two points of one size have no slope.
    if (taken.micro_batch != taken_.back().micro_batch) taken_.push_back(taken);
  }

  /// Returns one of the pipeline's other ranks, or of any stage's data ranks, that does not fit.
  std::optional<JobRank> rank_that_refuses(std::int64_t micro_batch) {
    if (micro_batch == micro_batch_of(job_)) return std::nullopt;  // as every verdict says
    for (const std::int64_t stage : ranks_that_may_take_most(job_)) {
      if (data_ranks_of(job_) == 1) {
        const JobRank rank{stage, 0};
        if (rank != rank_ && !fits(micro_batch, rank)) return rank;
        continue;
      }
      const Job job = with_micro_batch(job_, micro_batch);
      const auto lowered = lower(job.model, policy_of(job, stage));
      const auto* graph = std::get_if<Graph>(&lowered);
      if (graph == nullptr) return JobRank{stage, 0};
      const auto run = run_stage(*graph, job, stage, StageRunEnd::worst_known);
      if (run && run->verdict != Verdict::fits) return JobRank{stage, run->ranks.worst};
      if (!run && !fits(micro_batch, {stage, 0})) return JobRank{stage, 0};
    }
    return std::nullopt;
  }

  const Job& job_;
  JobRank rank_;
  double per_sequence_;
  Bytes room_;
  std::vector<Taken> taken_;
  std::int64_t fitting_ = 0;
  std::int64_t refused_ = kMost + 1;
};

}  // namespace

void find_largest_micro_batch(const Job& job, JobEstimate& estimate) {
  auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
  if (memory != nullptr) memory->largest_micro_batch = MicroBatchSearch(job, *memory).run();
}

}  // namespace memest
