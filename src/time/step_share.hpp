// Time of a whole training step beside its kernels: how much of recorded steps their own times
// explain. Derivation and sources: docs/calibration.md.
#pragma once

#include <string_view>

#include "memest/spec/gpu/gpu.hpp"
#include "memest/spec/job.hpp"
#include "memest/time/gpu_laws.hpp"

namespace memest {

/// A step's place, which decides how much of it its kernels are.
struct StepPlatform {
  const GpuSpec& gpu;
  Framework framework{};
  bool alone = false;  ///< one GPU, without collectives
};
StepPlatform platform_of(const Job& job);

/// Share of a step's time that its kernels explain.
double step_share(const StepPlatform& platform, Outlook outlook);

/// Whether the framework's kernels explain all of a step by the laws of this GPU: Megatron-core's,
/// where laws are of calls inside a training loop, on Hopper and on Blackwell.
bool explains_whole_steps(const StepPlatform& platform);

/// Whether the share is of steps of such a framework on this kind of GPU.
bool has_recorded_steps(const StepPlatform& platform);

}  // namespace memest
