#include "replayed_steps.hpp"

#include <cmath>
#include <cstdint>
#include <utility>

#include "memest/plan/step_memory.hpp"

namespace memest {
namespace {

/// A measured share of `whole`, rounded outwards to whole bytes.
Bytes share_rounded_up(Bytes whole, double share) {
  return Bytes(static_cast<std::int64_t>(std::ceil(whole.as_double() * share)));
}

/// More than any GPU has, and little enough for two expandable segments, of 9/8 of it each, in the
/// address space that the prediction hands out.
constexpr Bytes kUnlimited{std::int64_t{4} << 40};

bool was_pressed(const StepReplay& run) {
  return run.out_of_memory.has_value() || run.statistics.retries > 0;
}

}  // namespace

std::variant<ReplayedSteps, Unavailable> replay_job(const Graph& graph, const Job& job) {
  auto written = write_timeline(graph, job);
  if (auto* reason = std::get_if<Unavailable>(&written)) return std::move(*reason);
  ReplayedSteps steps;
  steps.graph = graph;
  steps.timeline = std::get<Timeline>(std::move(written));
  steps.run = replay_steps(steps.timeline, job.allocator, replay_device_of(job.hardware));
  steps.unlimited = was_pressed(steps.run)
                        ? replay_steps(steps.timeline, job.allocator,
                                       {.total = kUnlimited, .available = kUnlimited, .limit = {}})
                        : steps.run;
  if (steps.unlimited.out_of_memory) {
    return Unavailable{"a replay of more than 4 TiB on one GPU is not available"};
  }
  if (steps.run.out_of_memory && !job.allocator.expandable_segments) {
    AllocatorSettings expandable = job.allocator;
    expandable.expandable_segments = true;
    steps.expandable = replay_steps(steps.timeline, expandable, replay_device_of(job.hardware));
  }
  return steps;
}

Verdict judge(const ReplayedSteps& steps, const Job& job) {
  if (steps.run.out_of_memory) return Verdict::does_not_fit;
  const Margin& margin = margin_of(job.replay_margins, job.training->recompute);
  const ReplayDevice device = replay_device_of(job.hardware);
  const Bytes limit = device.limit.value_or(device.available);
  const Bytes reserved = steps.unlimited.statistics.reserved.peak;
  if (reserved + share_rounded_up(reserved, margin.high) <= limit) return Verdict::fits;
  // Within the residuals of recorded runs the memory may be short: would it still run?
  ReplayDevice tighter = device;
  tighter.limit = limit - share_rounded_up(limit, margin.high);
  const StepReplay run = replay_steps(steps.timeline, job.allocator, tighter);
  return run.out_of_memory ? Verdict::too_close_to_call : Verdict::fits;
}

std::string ReplayedSteps::moment(std::uint32_t event) const {
  const StorageId storage = timeline.events[event].storage;
  const Label& label = timeline.storages[storage].label;
  std::string name = storage_name(timeline, graph, storage);
  if (label.step == 0) return name + ", before the first step";
  return name + ", in step " + std::to_string(label.step) + "'s " +
         std::string(name_of(label.phase));
}

Bytes MemoryAnswer::allocated() const {
  const ReplayedSteps* steps = replayed();
  return steps != nullptr ? steps->unlimited.peak.allocated : estimate.allocated();
}

std::optional<Bytes> MemoryAnswer::reserved() const {
  const ReplayedSteps* steps = replayed();
  if (steps == nullptr) return std::nullopt;
  return (steps->run.out_of_memory ? steps->unlimited : steps->run).statistics.reserved.peak;
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
