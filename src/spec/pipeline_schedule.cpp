#include "memest/spec/pipeline_schedule.hpp"

#include <algorithm>
#include <cstddef>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

/// The k-th forward of an interleaved rank: p micro-batches through chunk 0, then through chunk 1,
/// and so on.
PipelineAction interleaved_forward(std::int64_t k, const PipelinePlace& place) {
  const std::int64_t group = place.ranks * place.chunks;
  const std::int64_t within = k % group;
  return {true, k / group * place.ranks + within % place.ranks, within / place.ranks};
}

/// The k-th backward begins with the last chunk.
PipelineAction interleaved_backward(std::int64_t k, const PipelinePlace& place) {
  PipelineAction action = interleaved_forward(k, place);
  return {false, action.micro_batch, place.chunks - 1 - action.chunk};
}

/// One action of a chunk ends before another can begin: of the same micro-batch in the stage
/// before, or, of a backward, in the stage behind or its own forward.
class Clock {
 public:
  Clock(const PipelinePlace& place, std::int64_t micro_batches, const ActionTimes& times)
      : place_(place),
        stages_(place.ranks * place.chunks),
        times_(times),
        ends_(static_cast<std::size_t>(2 * stages_ * micro_batches), kNever),
        free_(static_cast<std::size_t>(place.ranks), 0) {}

  /// False where what it waits for has not run.
  bool run(std::int64_t rank, const PipelineAction& action) {
    const std::int64_t stage = action.chunk * place_.ranks + rank;
    std::int64_t begin = free_[static_cast<std::size_t>(rank)];
    const auto wait = [&](bool forward, std::int64_t other) {
      const std::int64_t end = end_of(forward, other, action.micro_batch);
      begin = std::max(begin, end);
      return end != kNever;
    };
    if (action.forward && stage > 0 && !wait(true, stage - 1)) return false;
    if (!action.forward && !wait(true, stage)) return false;
    if (!action.forward && stage + 1 < stages_ && !wait(false, stage + 1)) return false;
    const std::int64_t end = begin + (action.forward ? times_.forward : times_.backward);
    end_of(action.forward, stage, action.micro_batch) = end;
    free_[static_cast<std::size_t>(rank)] = end;
    last_ = std::max(last_, end);
    return true;
  }

  [[nodiscard]] std::int64_t last() const { return last_; }

 private:
  static constexpr std::int64_t kNever = INT64_MAX;

  std::int64_t& end_of(bool forward, std::int64_t stage, std::int64_t micro_batch) {
    return ends_[static_cast<std::size_t>(2 * (micro_batch * stages_ + stage) + (forward ? 0 : 1))];
  }

  PipelinePlace place_;
  std::int64_t stages_;
  ActionTimes times_;
  std::vector<std::int64_t> ends_;
  std::vector<std::int64_t> free_;
  std::int64_t last_ = 0;
};

}  // namespace

std::vector<LayerSpan> stages_of(std::int64_t layers, const PipelinePlace& place) {
  const std::int64_t stages = place.ranks * place.chunks;
  expect(layers % stages == 0, "every stage of a pipeline has as many layers");
  const std::int64_t count = layers / stages;
  std::vector<LayerSpan> spans;
  for (std::int64_t chunk = 0; chunk < place.chunks; ++chunk) {
    spans.push_back({(chunk * place.ranks + place.rank) * count, count});
  }
  return spans;
}

std::int64_t warmup_of(Schedule schedule, const PipelinePlace& place, std::int64_t micro_batches) {
  const std::int64_t all = micro_batches * place.chunks;
  const std::int64_t behind = place.ranks - place.rank - 1;
  switch (schedule) {
    case Schedule::one_f_one_b:
      return std::min(behind, all);
    case Schedule::interleaved:
      return std::min(2 * behind + (place.chunks - 1) * place.ranks, all);
    case Schedule::gpipe:
      return all;
    case Schedule::zero_bubble:
      break;
  }
  unreachable("a schedule whose order is known");
}

std::vector<PipelineAction> actions_of(Schedule schedule, const PipelinePlace& place,
                                       std::int64_t micro_batches) {
  const std::int64_t all = micro_batches * place.chunks;
  const std::int64_t warmup = warmup_of(schedule, place, micro_batches);
  std::vector<PipelineAction> actions;
  actions.reserve(static_cast<std::size_t>(2 * all));
  std::int64_t backward = 0;
  for (std::int64_t k = 0; k < all; ++k) {
    actions.push_back(interleaved_forward(k, place));
    if (k >= warmup) actions.push_back(interleaved_backward(backward++, place));
  }
  while (backward < all) actions.push_back(interleaved_backward(backward++, place));
  return actions;
}

std::int64_t most_in_flight(const std::vector<PipelineAction>& actions) {
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (const PipelineAction& action : actions) {
    now += action.forward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

std::int64_t most_in_flight(Schedule schedule, const PipelinePlace& place,
                            std::int64_t micro_batches) {
  return std::min(warmup_of(schedule, place, micro_batches) + 1, micro_batches * place.chunks);
}

std::int64_t makespan(Schedule schedule, const PipelinePlace& any, std::int64_t micro_batches,
                      const ActionTimes& times) {
  Clock clock(any, micro_batches, times);
  std::vector<std::vector<PipelineAction>> waiting;
  for (std::int64_t rank = 0; rank < any.ranks; ++rank) {
    waiting.push_back(actions_of(schedule, {any.ranks, rank, any.chunks}, micro_batches));
    std::reverse(waiting.back().begin(), waiting.back().end());
  }
  for (bool runs = true; runs;) {
    runs = false;
    for (std::int64_t rank = 0; rank < any.ranks; ++rank) {
      auto& own = waiting[static_cast<std::size_t>(rank)];
      while (!own.empty() && clock.run(rank, own.back())) {
        own.pop_back();
        runs = true;
      }
    }
  }
  for (const auto& own : waiting) expect(own.empty(), "a schedule does not wait for itself");
  return clock.last();
}

}  // namespace memest
