// A sweep, measured: in its order, until it or the time is at its end or somebody stops it. Has no
// clock of its own and keeps no file: both are given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "memest/calibrate/sweep.hpp"
#include "memest/diag/diagnostic.hpp"
#include "memest/kernels/backend.hpp"
#include "memest/spec/gpu/gpu_profile.hpp"
#include "memest/spec/gpu/sample.hpp"

namespace memest {

/// The samples' column `source` of those that memest measured itself.
inline constexpr std::string_view kMeasuredSource = "memest calibrate";

struct MeasureProgress {
  std::size_t done = 0;  ///< steps, those measured before with them
  std::size_t of = 0;
  Seconds left;                     ///< expected, at the pace so far
  const SweepStep* next = nullptr;  ///< the step that begins; null where nothing is left
};

struct MeasureHooks {
  std::function<Seconds()> now;                                 ///< of a clock that never goes back
  std::function<bool()> interrupted;                            ///< asked before each step
  std::function<void(const MeasureProgress& progress)> begins;  ///< each step
  std::function<void(const Sample& sample)> measured;           ///< each, to be kept at once
};

struct MeasureRequest {
  std::string gpu;             ///< as samples name it
  Seconds budget;              ///< from now on
  std::vector<Sample> before;  ///< what an earlier run measured: not measured again
};

enum class MeasureEnd : std::uint8_t { finished, out_of_time, interrupted };

struct MeasureResult {
  MeasureEnd end = MeasureEnd::finished;
  std::vector<Sample> samples;       ///< earlier ones first
  std::size_t steps_left = 0;        ///< of the sweep, not measured
  std::vector<KernelShape> wrong{};  ///< whose kernel differs from its reference: not measured
  std::string difference{};          ///< of the first of them, in the backend's words
};

/// Throws EnvironmentError where the device fails; what was measured until then went to `measured`.
MeasureResult measure_sweep(Backend& backend, const Sweep& sweep, const MeasureRequest& request,
                            const MeasureHooks& hooks);

/// Warnings for a reader of the samples: others kept the device busy, shapes left out for
/// want of memory, samples at a fallen clock, steps that were not measured, rates that the device
/// cannot have reached.
Diagnostics warnings_of(const Sweep& sweep, const SweepDevice& device, const MeasureResult& result);

/// Shapes that were measured and that `profile`, fitted to them, has no law for; nothing where it
/// has all.
Diagnostics missing_laws(const GpuProfile& profile, const GpuSpec& gpu,
                         const std::vector<Sample>& samples);

}  // namespace memest
