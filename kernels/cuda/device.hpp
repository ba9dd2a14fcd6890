// The GPU that the CUDA runtime names first, and what is opened once for it.
#pragma once

#include <string>

#include "kernels/harness/nvml.hpp"
#include "kernels/harness/stream.hpp"
#include "memest/kernels/backend.hpp"

namespace memest::kernels {

/// The first device's PCI address. Throws EnvironmentError where there is no driver or no device.
std::string first_device_address();

struct Device {
  Nvml nvml{first_device_address()};
  OwnedStream stream;
  ComputeCapability capability;
  Bytes l2_cache;

  Device();
  [[nodiscard]] DeviceFacts facts() const;
  [[nodiscard]] static Bytes free_memory();
};

}  // namespace memest::kernels
