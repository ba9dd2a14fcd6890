// What a whole training step takes beside its kernels: how much of recorded steps their own times
// explain. Derivation and sources: docs/calibration.md.
#pragma once

#include <string_view>

#include "memest/spec/gpu.hpp"
#include "memest/spec/training.hpp"
#include "memest/time/gpu_laws.hpp"

namespace memest {

/// Share of a step's time that its kernels explain.
double step_share(const GpuSpec& gpu, Framework framework, Outlook outlook);

/// Whether the framework's kernels explain all of a step by the laws of this GPU: Megatron-core's,
/// where laws are of calls inside a training loop, and on Hopper.
bool explains_whole_steps(const GpuSpec& gpu, Framework framework);

/// Whether steps of such a framework were recorded on this kind of GPU.
bool has_recorded_steps(const GpuSpec& gpu, Framework framework);

}  // namespace memest
