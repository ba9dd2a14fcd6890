// The largest micro-batch of a job as written, searched by the verdict itself: the replay's where
// there is one. The closed form says only where to begin.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/graph/lower.hpp"
#include "memest/memory/data_ranks.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/spec/framework.hpp"
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

/// The key that grows: sequences of a micro-batch, or of a generation its prompts, beams or tokens.
enum class GrowingKey : std::uint8_t { micro_batch, beams, tokens };

std::int64_t value_of(const Job& job, GrowingKey key) {
  switch (key) {
    case GrowingKey::micro_batch:
      return job.inference ? job.inference->prompts() : job.forward()->micro_batch;
    case GrowingKey::beams:
      return job.inference->beams();
    case GrowingKey::tokens:
      return job.inference->generation->tokens;
  }
  unreachable("every key has a value");
}

Job with_value(const Job& job, GrowingKey key, std::int64_t value) {
  Job other = job;
  if (other.training) other.training->micro_batch = value;
  if (!other.inference) return other;
  InferenceSpec& inference = *other.inference;
  const std::int64_t prompts = key == GrowingKey::micro_batch ? value : inference.prompts();
  if (key == GrowingKey::beams) inference.generation->beams = value;
  if (key == GrowingKey::tokens) inference.generation->tokens = value;
  // The beams of a prompt are sequences of their own.
  inference.micro_batch = checked_multiply(prompts, inference.beams());
  return other;
}

/// The largest value that a spec may write.
std::int64_t most_of(const Job& job, GrowingKey key) {
  constexpr std::int64_t kMostBeams = 1'000;  // src/reader/keys/spec.cpp
  constexpr std::int64_t kMostTokens = 100'000;
  if (key == GrowingKey::beams) return kMostBeams;
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  const bool learned =
      decoder != nullptr && std::holds_alternative<LearnedPosition>(decoder->position);
  if (key != GrowingKey::tokens) return kMost;
  if (!learned || decoder->max_positions <= 0) return kMostTokens;
  return std::min(kMostTokens, decoder->max_positions - job.inference->seq_len + 1);
}

/// Bytes of the closed form that one more takes; 0 where it has no letter for it.
double bytes_of_one(const Job& job, const MemoryAnswer& answer, GrowingKey key) {
  const double sequence = answer.simple.per_sequence.as_double();
  if (!job.inference) return sequence;
  switch (key) {
    case GrowingKey::micro_batch:
      return sequence * static_cast<double>(job.inference->beams());
    case GrowingKey::beams:
      return sequence * static_cast<double>(job.inference->prompts());
    case GrowingKey::tokens:
      return 0;
  }
  unreachable("every key has its bytes");
}

/// Bytes that the allocator takes with such a value.
struct Taken {
  std::int64_t value = 0;
  Bytes bytes;
};

class LargestOfKey {
 public:
  LargestOfKey(const Job& job, const MemoryAnswer& worst, GrowingKey key)
      : job_(job),
        key_(key),
        most_(most_of(job, key)),
        refused_(most_ + 1),
        rank_{worst.ranks.rank, worst.ranks.data.worst},
        of_one_(bytes_of_one(job, worst, key)) {
    const std::int64_t own = value_of(job, key);
    const Verdict known = loads_into_host(job) ? worst.overall() : worst.verdict;
    (known == Verdict::fits ? fitting_ : refused_) = own;
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

  /// At most so many events are replayed; run() answers nothing where they do not suffice.
  void hold_to(std::int64_t& events) { events_left_ = &events; }

  std::optional<std::int64_t> run() {
    for (;;) {
      search();
      if (gives_up()) return std::nullopt;
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

  /// Returns why a value larger than run() answered is none.
  [[nodiscard]] LargestValue::Bound bound() const {
    if (not_followed_ && *not_followed_ == fitting_ + 1) return LargestValue::Bound::events;
    return fitting_ == most_ ? LargestValue::Bound::key : LargestValue::Bound::memory;
  }

 private:
  /// Until the rank runs with `fitting_` and not with `refused_`, its neighbour.
  void search() {
    for (int guesses = 0; refused_ - fitting_ > 1 && !gives_up(); ++guesses) {
      std::int64_t next = fitting_ + (refused_ - fitting_) / 2;
      if (guesses < kGuesses) {
        next = guess();
      } else if (refused_ > most_) {
        next = std::min(2 * fitting_ + 1, most_);
      }
      (fits(next, rank_) ? fitting_ : refused_) = next;
    }
  }

  [[nodiscard]] bool gives_up() const {
    return events_left_ != nullptr && *events_left_ < 0 && refused_ - fitting_ > 1;
  }

  /// The guess where the line through the last two known points, or with the closed form's slope,
  /// meets the room.
  [[nodiscard]] std::int64_t guess() const {
    const Taken& last = taken_.back();
    double slope = of_one_;
    if (taken_.size() > 1) {
      const Taken& before = taken_[taken_.size() - 2];
      slope =
          (last.bytes - before.bytes).as_double() / static_cast<double>(last.value - before.value);
    }
    auto sequences = static_cast<double>(last.value);
    // Regula falsi: where memory does not grow between two points, the size is doubled.
    sequences += slope > 0 ? (room_ - last.bytes).as_double() / slope : sequences;
    const auto most = static_cast<double>(std::min(last.value * kMostGrowth, most_));
    const double within = std::clamp(sequences, 0.0, most);
    // Strictly inside the interval, so every guess shrinks it.
    return std::clamp(static_cast<std::int64_t>(within), fitting_ + 1, refused_ - 1);
  }

  bool fits(std::int64_t value, JobRank rank) {
    const Job job = with_value(job_, key_, value);
    const auto lowered = lower(job.model, policy_of(job, rank.pipeline));
    if (!std::holds_alternative<Graph>(lowered)) return false;
    const auto& graph = std::get<Graph>(lowered);
    if (is_beyond_replay(graph) || !fits_host(graph, job)) return false;
    const auto timeline = write_timeline(graph, job, rank);
    if (const auto* events = std::get_if<Timeline>(&timeline)) {
      if (events_left_ != nullptr) {
        *events_left_ -= static_cast<std::int64_t>(events->events.size());
      }
      const SureRun run = surely_runs(*events, job);
      if (run.reserved) note({value, *run.reserved});
      return run.runs;
    }
    if (job.inference && job.inference->generation) {
      // Nothing else answers.
      not_followed_ = std::min(value, not_followed_.value_or(value));
      return false;
    }
    // They have no formula.
    if (job.model.shared_layers) return false;
    if (job.training && (job.training->saves_on_host() || job.training->teacher != nullptr)) {
      return false;
    }
    const Ledger ledger = write_ledger(graph, job, rank.pipeline);
    const MemoryEstimate estimate = estimate_memory(ledger, ledger.bindings);
    note({value, estimate.allocated()});
    return judge(estimate, capacity_of(job.hardware)) == Verdict::fits;
  }

  /// A loader keeps batches on the host, which grow with the micro-batch, and saved tensors may
  /// wait there.
  static bool fits_host(const Graph& graph, const Job& job) {
    const bool waits = job.training && job.training->saves_on_host();
    if (!waits && !loads_into_host(job)) return true;
    const HostMemory host = *host_memory_of(graph, job);
    return host_need_of(host.taken(), job, job.hardware).verdict() == Verdict::fits;
  }

  void note(const Taken& taken) {
    // Two points of one size have no slope.
    if (taken.value != taken_.back().value) taken_.push_back(taken);
  }

  /// Returns one of the pipeline's other ranks, or of any stage's data ranks, that does not fit.
  std::optional<JobRank> rank_that_refuses(std::int64_t value) {
    if (value == value_of(job_, key_)) return std::nullopt;  // as every verdict says
    for (const std::int64_t stage : ranks_that_may_take_most(job_)) {
      if (data_ranks_of(job_) == 1) {
        const JobRank rank{stage, 0};
        if (rank != rank_ && !fits(value, rank)) return rank;
        continue;
      }
      const Job job = with_value(job_, key_, value);
      const auto lowered = lower(job.model, policy_of(job, stage));
      const auto* graph = std::get_if<Graph>(&lowered);
      if (graph == nullptr) return JobRank{stage, 0};
      const auto run = run_stage(*graph, job, stage, StageRunEnd::worst_known);
      if (run && run->verdict != Verdict::fits) return JobRank{stage, run->ranks.worst};
      if (!run && !fits(value, {stage, 0})) return JobRank{stage, 0};
    }
    return std::nullopt;
  }

  const Job& job_;
  GrowingKey key_;
  std::int64_t most_;
  std::int64_t refused_;
  std::int64_t* events_left_ = nullptr;
  std::optional<std::int64_t> not_followed_;  ///< the least value whose events are too many
  JobRank rank_;
  double of_one_;
  Bytes room_;
  std::vector<Taken> taken_;
  std::int64_t fitting_ = 0;
};

}  // namespace

void find_largest_micro_batch(const Job& job, JobEstimate& estimate) {
  auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
  if (memory == nullptr) return;
  if (!job.inference || !job.inference->generation) {
    std::optional<std::int64_t> largest = LargestOfKey(job, *memory, GrowingKey::micro_batch).run();
    // A batch of pairs has an even number of sequences.
    if (largest && row_of(job.forward()->implementation.loop).prefers) *largest -= *largest % 2;
    memory->largest_micro_batch = largest;
    return;
  }
  // A second or two; docs/limits.md has the bound of a command.
  std::int64_t events = 20'000'000;
  const auto largest = [&](GrowingKey key) -> std::optional<LargestValue> {
    LargestOfKey search(job, *memory, key);
    search.hold_to(events);
    const std::optional<std::int64_t> value = search.run();
    if (!value) return std::nullopt;
    return LargestValue{*value, search.bound()};
  };
  const std::optional<LargestValue> prompts = largest(GrowingKey::micro_batch);
  if (prompts) memory->largest_micro_batch = prompts->value;
  if (!job.inference->generation->samples) memory->largest_beams = largest(GrowingKey::beams);
  memory->largest_tokens = largest(GrowingKey::tokens);
}

}  // namespace memest
