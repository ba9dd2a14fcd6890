#include "replayed_steps.hpp"

#include <cstdint>
#include <utility>

#include "memest/memory/stage_form.hpp"
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
    steps.expandable = replay_steps(timeline, expandable, replay_device_of(job));
  }
  return steps;
}

ReplayDevice tightest_device_of(const Job& job) {
  const Margin& margin = margin_of(job.margins().replay, job.recompute());
  // The most that, with the margin on top of it, is all there is.
  const auto less_margin = [&](Bytes whole) {
    return whole - share_rounded_up(whole, margin.high / (1 + margin.high));
  };
  ReplayDevice device = replay_device_of(job);
  if (device.limit) {
    device.limit = less_margin(*device.limit);
  } else {
    device.available = less_margin(device.total - outside_bytes(job).high);
  }
  return device;
}

Verdict judge(const ReplayedSteps& steps, const Job& job) {
  const StepReplay& replay = steps.step.replay;
  if (replay.out_of_memory) return Verdict::does_not_fit;
  const ReplayDevice device = tightest_device_of(job);
  const Bytes room = device.limit.value_or(device.available);
  const bool is_pressed = replay.statistics.retries > 0;
  if (!is_pressed && replay.statistics.reserved.peak <= room) return Verdict::fits;
  const StepReplay run = replay_steps(steps.step.timeline, job.allocator, device);
  return run.out_of_memory ? Verdict::too_close_to_call : Verdict::fits;
}

SureRun surely_runs(const Timeline& timeline, const Job& job) {
  const StepReplay run = replay_steps(timeline, job.allocator, tightest_device_of(job));
  if (run.out_of_memory) return {};
  if (run.statistics.retries == 0) return {true, run.statistics.reserved.peak};
  return {!replay_steps(timeline, job.allocator, replay_device_of(job)).out_of_memory, {}};
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

BytesInterval MemoryAnswer::of_capacity() const {
  if (!capacity.allocator_limit) return {device(), low(), high()};
  return {device() - estimate.outside, low() - estimate.outside_low,
          high() - estimate.outside_high};
}

}  // namespace memest
