// Bytes moved between host and device.
#pragma once

#include "kernels/cuda/device.hpp"

namespace memest::kernels {

/// One copy is `shape.bytes` in one direction; a migration is the first touch, by a kernel that
/// reads all, of managed pages that the host has just written.
Measurement measure_transfer(const Device& device, const TransferShape& shape,
                             const RulerSettings& settings);

}  // namespace memest::kernels
