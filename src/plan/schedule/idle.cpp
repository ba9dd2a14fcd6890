#include "plan/schedule/idle.hpp"

#include <algorithm>

#include "plan/schedule/chain_writer.hpp"
#include "plan/schedule/fate_writer.hpp"

namespace memest {
namespace {

std::size_t first_read(const StepTensors& step, const StepTensor& tensor) {
  return 2 * step.ops.size() - 1 - tensor.savers.back();
}

}  // namespace

Played play_fates(const ScheduledStep& step, std::span<const Fate> fates, std::int64_t budget) {
  return FateWriter(step, fates, budget).write().played;
}

bool is_idle_at(const StepTensors& step, std::uint32_t tensor, std::size_t pass) {
  const StepTensor& kept = step.tensors[tensor];
  if (kept.savers.empty()) return false;
  return last_use_of(kept) < pass && pass < first_read(step, kept);
}

bool is_cheap(const StepTensors& step, std::uint32_t tensor) {
  const StepTensor& kept = step.tensors[tensor];
  return !kept.savers.empty() &&
         std::none_of(kept.makers.begin(), kept.makers.end(), [&](std::uint32_t op) {
           return step.ops[op].op_class == OpClass::contraction;
         });
}

PassClock::PassClock(const ScheduledStep& step) : step_(step.step) {
  double now = 0;
  for (const double seconds : step.forward) {
    begins_.push_back(now);
    now += seconds;
  }
  for (std::size_t i = step.backward.size(); i > 0; --i) {
    begins_.push_back(now);
    now += step.backward[i - 1];
  }
}

double PassClock::idle_seconds(std::uint32_t tensor) const {
  const StepTensor& kept = step_.tensors[tensor];
  return begins_[first_read(step_, kept)] - begins_[last_use_of(kept)];
}

}  // namespace memest
