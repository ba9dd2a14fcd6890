// Kernels to measure of a device, and in which order: kinds in turn, each from its most
// telling shapes on, so that whatever ends the run, all of them were covered as evenly as its time
// allowed. A device and budget determine the sweep.
#pragma once

#include <functional>
#include <vector>

#include "memest/kernels/backend.hpp"
#include "memest/spec/gpu/gpu.hpp"
#include "memest/spec/gpu/kernel_shape.hpp"
#include "memest/spec/gpu/sample.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// Time of a run of `memest calibrate --quick`, and of one without.
inline constexpr Seconds kQuickBudget{60};
inline constexpr Seconds kFullBudget{600};
/// Share of a budget for measuring; the rest is for opening the device, fitting and writing.
inline constexpr double kShareForMeasuring = 0.9;

struct SweepDevice {
  DeviceFacts facts;
  GpuSpec gpu;  ///< its rates, from which times are expected
  std::function<bool(const KernelShape&)> can_measure;
};

struct SweepStep {
  KernelShape shape;
  Load load = Load::burst;
  Seconds call;      ///< expected of one call
  Seconds expected;  ///< of measuring it, with rests and warm-up
};

struct Sweep {
  std::vector<SweepStep> steps;       ///< in the order of measuring
  std::vector<KernelShape> left_out;  ///< fit into the device's memory, not into what is free
  RulerSettings ruler;                ///< of every step but its load

  [[nodiscard]] Seconds expected() const;  ///< of all steps
};

/// As much as `budget` allows: up to kQuickBudget few types, few samples of each shape; above, all
/// that the backend can. Shapes are spread over sizes that models have, aligned and not. Matrix
/// products come under sustained load too, in one block that keeps the device busy.
Sweep design_sweep(const SweepDevice& device, Seconds budget);

/// How long a step under sustained load warms up: the first of a block for the ruler's time, the
/// others find the device busy.
Seconds warm_up(const RulerSettings& ruler, bool busy_before);

}  // namespace memest
