// The driver's management library: clocks and its version. Opened at run time, so that nothing
// links it and where it is missing clocks are not known.
#pragma once

#include <string>

#include "kernels/harness/library.hpp"

namespace memest::kernels {

class Nvml {
 public:
  /// Opens the device at this PCI address, as CUDA writes it.
  explicit Nvml(const std::string& pci_address);
  Nvml(const Nvml&) = delete;
  Nvml(Nvml&&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  Nvml& operator=(Nvml&&) = delete;
  ~Nvml();

  /// The multiprocessors' clock now; 0 where it is not known.
  [[nodiscard]] double clock_mhz() const;
  /// Share of the driver's last interval, at most a second, in which a kernel ran; 0 where not
  /// known.
  [[nodiscard]] double busy_share() const;
  /// "580.65.06"; empty where it is not known.
  [[nodiscard]] std::string driver_version() const;

 private:
  using Device = struct NvmlDevice*;

  Library library_;
  Device device_ = nullptr;
};

}  // namespace memest::kernels
