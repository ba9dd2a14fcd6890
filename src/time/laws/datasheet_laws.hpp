// A GPU that nobody measured, as a profile: what kernels reach of a datasheet, one efficiency for
// each class of work, from published measurements of other GPUs. Derivation, numbers and sources:
// docs/calibration.md.
#pragma once

#include <optional>

#include "memest/spec/gpu/gpu.hpp"
#include "memest/spec/gpu/gpu_profile.hpp"

namespace memest {

/// Laws of every operation, tagged `datasheet`; residuals' low and high are the ends of what was
/// published. Without collectives where neither a link nor a PCIe generation is known.
GpuProfile datasheet_laws(const GpuSpec& gpu);

/// Bytes a second of the GPU's 16 PCIe lanes, one direction, after line coding; empty where its
/// generation is not known.
std::optional<double> pcie_rate_of(const GpuSpec& gpu);

}  // namespace memest
