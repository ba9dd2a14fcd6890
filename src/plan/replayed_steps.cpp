#include "replayed_steps.hpp"

#include <cstdint>
#include <utility>

#include "memest/plan/step_memory.hpp"

namespace memest {
namespace {

bool was_pressed(const StepReplay& run) {
  return run.out_of_memory.has_value() || run.statistics.retries > 0;
}

}  // namespace

std::variant<ReplayedSteps, Unavailable> replay_job(const Graph& graph, const Job& job,
                                                    std::int64_t pipeline_rank) {
  auto written = step_memory_of(graph, job, pipeline_rank);
  if (auto* reason = std::get_if<Unavailable>(&written)) return std::move(*reason);
  ReplayedSteps steps;
  steps.step = std::get<StepMemory>(std::move(written));
  const Timeline& timeline = steps.step.timeline;
  if (was_pressed(steps.step.replay)) {
    steps.unlimited = replay_steps(
        timeline, job.allocator, {.total = kMostReplayed, .available = kMostReplayed, .limit = {}});
  }
  if (steps.unpressed().out_of_memory) {
    return Unavailable{kBeyondReplay};
  }
  if (steps.step.replay.out_of_memory && !job.allocator.expandable_segments) {
    AllocatorSettings expandable = job.allocator;
    expandable.expandable_segments = true;
    steps.expandable = replay_steps(timeline, expandable, replay_device_of(job.hardware));
  }
  return steps;
}

Verdict judge(const ReplayedSteps& steps, const Job& job) {
  if (steps.step.replay.out_of_memory) return Verdict::does_not_fit;
  const Margin& margin = margin_of(job.margins().replay, job.recompute());
  const ReplayDevice device = replay_device_of(job.hardware);
  const Bytes limit = device.limit.value_or(device.available);
  const Bytes reserved = steps.unpressed().statistics.reserved.peak;
  if (reserved + share_rounded_up(reserved, margin.high) <= limit) return Verdict::fits;
  // Within the residuals of recorded runs the memory may be short: would it still run?
  ReplayDevice tighter = device;
  tighter.limit = limit - share_rounded_up(limit, margin.high);
  const StepReplay run = replay_steps(steps.step.timeline, job.allocator, tighter);
  return run.out_of_memory ? Verdict::too_close_to_call : Verdict::fits;
}

Bytes MemoryAnswer::allocated() const {
  const ReplayedSteps* steps = replayed();
  return steps != nullptr ? steps->unpressed().peak.allocated : estimate.allocated();
}

std::optional<Bytes> MemoryAnswer::reserved() const {
  const ReplayedSteps* steps = replayed();
  if (steps == nullptr) return std::nullopt;
  return (steps->step.replay.out_of_memory ? steps->unpressed() : steps->step.replay)
      .statistics.reserved.peak;
}

Bytes MemoryAnswer::device() const {
  return reserved().value_or(estimate.allocated()) + estimate.outside;
}

Bytes MemoryAnswer::low() const {
  if (!reserved()) return estimate.low();
  return *reserved() - share_rounded_up(*reserved(), replay_margin.low) + estimate.outside_low;
}

Bytes MemoryAnswer::high() const {
  if (!reserved()) return estimate.high();
  return *reserved() + share_rounded_up(*reserved(), replay_margin.high) + estimate.outside_high;
}

}  // namespace memest
