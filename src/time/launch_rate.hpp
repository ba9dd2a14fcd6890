// How fast the host launches the kernels of a pass, one after another: a pass whose kernels are
// short takes as long as that.
#pragma once

#include "memest/spec/implementation.hpp"
#include "memest/time/gpu_laws.hpp"

namespace memest {

/// Seconds of the host between two launches.
struct LaunchRate {
  double fast = 0;
  double expected = 0;
  double slow = 0;

  [[nodiscard]] double at(Outlook outlook) const;
};

/// The rate of eager PyTorch in a forward without autograd: a published latency of a token, divided
/// by the kernels that the token takes. docs/generation.md has the five machines: these are the
/// least, the median and the most of them.
inline constexpr LaunchRate kEagerLaunch{9.5e-6, 22.4e-6, 27.6e-6};

/// The host's part of a micro-step of training.
struct LaunchRates {
  LaunchRate forward;   ///< and of a forward that recomputes
  LaunchRate backward;  ///< autograd's own thread, without Python between two operations
};

LaunchRates launch_rates(const Implementation& implementation);

}  // namespace memest
