// What can be measured and on what: a GPU, or the host that plays one, behind one face.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memest/spec/kernel_shape.hpp"
#include "memest/spec/sample.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// The device, as the driver describes it.
struct DeviceFacts {
  std::string name;                ///< "NVIDIA H100 80GB HBM3"
  std::string compute_capability;  ///< "9.0"; empty on the host
  std::int64_t multiprocessors = 0;
  Bytes memory;  ///< that the driver reports as total
  Bytes l2_cache;
  std::string driver;
  std::vector<std::string> libraries;  ///< "CUDA 13.0", "cuBLAS 13.1.0", ...
};

/// When to stop timing one shape, and what to do before.
struct RulerSettings {
  Load load = Load::burst;
  double relative_error = 0.005;  ///< of the median, at which it is known well enough
  Seconds longest{1.5};           ///< device time spent on one shape at most
  std::int64_t least_samples = 10;
};

/// One shape, timed.
struct Measurement {
  Seconds median;
  Seconds low;  ///< 95 % interval of the median
  Seconds high;
  std::int64_t samples = 0;
  double clock_mhz = 0;    ///< mean of the multiprocessors' clock while it ran; 0: not known
  bool throttled = false;  ///< the clock fell under the ruler's share of its maximum
};

/// Measures kernels. Throws EnvironmentError where the device fails.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual DeviceFacts facts() const = 0;
  /// Whether it has a kernel for the shape, and the memory.
  [[nodiscard]] virtual bool can_measure(const KernelShape& shape) const = 0;
  /// Checks the kernel against a double-precision reference the first time, then times it.
  virtual Measurement measure(const KernelShape& shape, const RulerSettings& settings) = 0;
};

}  // namespace memest
