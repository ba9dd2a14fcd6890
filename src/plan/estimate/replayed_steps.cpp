#include "plan/estimate/replayed_steps.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/memory/stage_form.hpp"
#include "memest/memory/unfollowed.hpp"
#include "memest/plan/step_memory.hpp"

namespace memest {
namespace {

OutsideBytes outside_of(const MemoryEstimate& estimate) {
  return {estimate.outside, estimate.outside_low, estimate.outside_high};
}

constexpr ReplayDevice kUnlimitedDevice{
    .total = kMostReplayed, .available = kMostReplayed, .limit = {}};

}  // namespace

Bytes room_of(const ReplayDevice& device) {
  return std::min(device.available, device.limit.value_or(device.available));
}

Bytes demand_of(const Timeline& timeline) {
  // Bytes asked for, without rounding or fragments: no allocator gets by with less.
  std::int64_t held = 0;
  std::int64_t most = 0;
  for (const Event event : timeline.events) {
    const std::int64_t bytes = timeline.storages[event.storage].bytes;
    held = event.kind == EventKind::free ? held - bytes : checked_add(held, bytes);
    most = std::max(most, held);
  }
  return Bytes(most);
}

bool is_hopeless(Bytes demand, const Job& job) {
  return demand > std::max(room_of(replay_device_of(job)), room_of(roomiest_device_of(job)));
}

bool was_pressed(const StepReplay& run) {
  return run.out_of_memory.has_value() || run.statistics.retries > 0;
}

std::variant<ReplayedSteps, Unavailable> replay_job(const Graph& graph, const Job& job,
                                                    JobRank rank) {
  auto written = step_memory_of(graph, job, rank);
  if (auto* reason = std::get_if<Unavailable>(&written)) return std::move(*reason);
  return replayed_steps_of(std::get<StepMemory>(std::move(written)), job);
}

std::variant<ReplayedSteps, Unavailable> replayed_steps_of(StepMemory step, const Job& job) {
  ReplayedSteps steps;
  steps.step = std::move(step);
  const Timeline& timeline = steps.step.timeline;
  // A replay that had to give memory back says what fits, not what the job wants: that takes a
  // device without a limit.
  if (was_pressed(steps.step.replay)) {
    steps.unlimited = replay_unpressed(timeline, job);
  }
  if (steps.unpressed().out_of_memory) {
    return Unavailable{kBeyondReplay};
  }
  const ReplayDevice device = replay_device_of(job);
  // Tried only where what is requested would fit: then segments are to blame, not tensors.
  if (steps.step.replay.out_of_memory && !job.allocator.expandable_segments &&
      steps.unpressed().statistics.requested.peak <= room_of(device)) {
    AllocatorSettings expandable = job.allocator;
    expandable.expandable_segments = true;
    steps.expandable = replay_steps(timeline, expandable, device);
  }
  return steps;
}

bool cannot_fit(Bytes demand, const Job& job) { return demand > room_of(tightest_device_of(job)); }

ReplayDevice tightest_device_of(const Job& job) {
  const Margin& margin = margin_of(job.margins().replay, job.recompute());
  // The most that, with the margin on top of it, is all there is.
  const auto less_margin = [&](Bytes whole) {
    // x (1 + high) = whole: with a margin of 25 % 64 of 80 GiB.
    return whole - share_rounded_up(whole, margin.high / (1 + margin.high));
  };
  ReplayDevice device = replay_device_of(job);
  if (device.limit) {
    // A workspace of cuDNN's is the allocator's to give, and so are outliers.
    device.limit = less_margin(std::max(*device.limit - most_unfollowed_bytes(job), Bytes()));
  } else {
    device.available = less_margin(device.total - outside_bytes(job).high);
  }
  return device;
}

ReplayDevice roomiest_device_of(const Job& job) {
  const Margin& margin = margin_of(job.margins().replay, job.recompute());
  // The least that, with the margin taken off it, is all there is.
  const auto with_margin = [&](Bytes whole) {
    // x (1 - low) = whole: with a margin of 20 % 100 of 80 GiB.
    return whole + share_rounded_up(whole, margin.low / (1 - margin.low));
  };
  ReplayDevice device = replay_device_of(job);
  if (device.limit) {
    device.limit = with_margin(*device.limit);
    device.total = std::max(device.total, *device.limit);
    device.available = std::max(device.available, *device.limit);
  } else {
    device.available = with_margin(device.total - outside_bytes(job).low);
    device.total = std::max(device.total, device.available);
  }
  return device;
}

StepReplay replay_unpressed(const Timeline& timeline, const Job& job) {
  return replay_steps(timeline, job.allocator, kUnlimitedDevice);
}

std::optional<Bytes> reserved_unpressed(const Timeline& timeline, const Job& job) {
  const StepReplay run = replay_unpressed(timeline, job);
  if (run.out_of_memory) return std::nullopt;
  return run.statistics.reserved.peak;
}

bool fits_freely(Bytes reserved, const Job& job) {
  const ReplayDevice device = tightest_device_of(job);
  return reserved <= device.limit.value_or(device.available);
}

DeviceBytes device_bytes(Bytes reserved, const Margin& margin, const OutsideBytes& outside) {
  return {reserved + outside.expected,
          reserved - share_rounded_up(reserved, margin.low) + outside.low,
          reserved + share_rounded_up(reserved, margin.high) + outside.high};
}

Bytes least_taken(Bytes low, Verdict verdict, const Capacity& capacity,
                  const OutsideBytes& outside) {
  if (verdict != Verdict::too_close_to_call) return low;
  // An allocator's own limit holds no overheads.
  return std::min(low, capacity.allocator_limit ? capacity.bytes + outside.low : capacity.bytes);
}

Verdict judge_run(const Timeline& timeline, const StepReplay& run, const Job& job) {
  if (run.out_of_memory) {
    // Out of memory also with all the margin allows: surely too large.
    const StepReplay roomy = replay_steps(timeline, job.allocator, roomiest_device_of(job));
    return roomy.out_of_memory ? Verdict::does_not_fit : Verdict::too_close_to_call;
  }
  // A run that gave nothing back reserves the same on any larger device, so no second replay is
  // needed.
  if (!was_pressed(run) && fits_freely(run.statistics.reserved.peak, job)) return Verdict::fits;
  const StepReplay tight = replay_steps(timeline, job.allocator, tightest_device_of(job));
  return tight.out_of_memory ? Verdict::too_close_to_call : Verdict::fits;
}

Verdict judge_replay(const ReplayedSteps& steps, const Job& job) {
  if (is_hopeless(steps.unpressed().statistics.requested.peak, job)) return Verdict::does_not_fit;
  return judge_run(steps.step.timeline, steps.step.replay, job);
}

SureRun surely_runs(const Timeline& timeline, const Job& job) {
  if (cannot_fit(demand_of(timeline), job)) return {};
  const StepReplay run = replay_steps(timeline, job.allocator, tightest_device_of(job));
  if (run.out_of_memory) return {};
  if (run.statistics.retries == 0) return {true, run.statistics.reserved.peak};
  // Less room may run where more does not: giving segments back early changes where later ones lie.
  // Both must run.
  return {!replay_steps(timeline, job.allocator, replay_device_of(job)).out_of_memory, {}};
}

Verdict MemoryAnswer::overall() const {
  return host_need ? worse_of(verdict, host_need->verdict()) : verdict;
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
  const OutsideBytes outside = outside_of(estimate);
  return least_taken(device_bytes(*reserved(), replay_margin, outside).low, verdict, capacity,
                     outside);
}

Bytes MemoryAnswer::high() const {
  if (!reserved()) return estimate.high();
  return device_bytes(*reserved(), replay_margin, outside_of(estimate)).high;
}

namespace {

BytesInterval widened(BytesInterval recorded, const SourceMargin& margin) {
  const Bytes expected = recorded.expected;
  return {expected, std::min(recorded.low, expected - share_rounded_up(expected, margin.low)),
          std::max(recorded.high, expected + share_rounded_up(expected, margin.high))};
}

}  // namespace

std::optional<BytesInterval> MemoryAnswer::device_of_any_release() const {
  if (published.device.runs == 0) return std::nullopt;
  return widened({device(), low(), high()}, published.device);
}

std::optional<BytesInterval> MemoryAnswer::reserved_of_any_release() const {
  const std::optional<Bytes> expected = reserved();
  if (!expected || published.reserved.runs == 0) return std::nullopt;
  const DeviceBytes recorded = device_bytes(*expected, replay_margin, {});
  return widened({*expected, recorded.low, recorded.high}, published.reserved);
}

BytesInterval MemoryAnswer::of_capacity() const {
  if (!capacity.allocator_limit) return {device(), low(), high()};
  return {device() - estimate.outside, low() - estimate.outside_low,
          high() - estimate.outside_high};
}

}  // namespace memest
