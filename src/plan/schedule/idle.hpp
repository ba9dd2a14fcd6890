// Which tensors lie idle where a step stands highest, and for how long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "memest/plan/schedule.hpp"

namespace memest {

/// by_fates(), played.
Played play_fates(const ScheduledStep& step, std::span<const Fate> fates, std::int64_t budget);

/// Whether the forward has used it for the last time in a pass (see Played::peak_at), and no
/// backward has read it.
bool is_idle_at(const StepTensors& step, std::uint32_t tensor, std::size_t pass);

/// Whether a backward reads it, and no contraction has a part in making it.
bool is_cheap(const StepTensors& step, std::uint32_t tensor);

/// The beginning of each pass where nothing waits or runs twice.
class PassClock {
 public:
  explicit PassClock(const ScheduledStep& step);

  /// From the forward's last use to the backward's first read.
  [[nodiscard]] double idle_seconds(std::uint32_t tensor) const;

 private:
  const StepTensors& step_;
  std::vector<double> begins_;  // by pass
};

}  // namespace memest
