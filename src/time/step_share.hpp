// What a whole training step takes beside its kernels: how much of recorded steps their own times
// explain. Derivation and sources: docs/calibration.md.
#pragma once

#include <string_view>

#include "memest/spec/gpu.hpp"
#include "memest/time/gpu_laws.hpp"

namespace memest {

/// Share of a step's time that its kernels explain.
double step_share(const GpuSpec& gpu, Outlook outlook);

/// Whether steps were recorded on this kind of GPU.
bool has_recorded_steps(const GpuSpec& gpu);

}  // namespace memest
