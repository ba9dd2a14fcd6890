// Backends that measure kernels: a GPU, or the host that plays one, behind one face.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memest/spec/gpu/gpu_target.hpp"
#include "memest/spec/gpu/kernel_shape.hpp"
#include "memest/spec/gpu/sample.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// The device, as the driver describes it.
struct DeviceFacts {
  std::string name;                                     ///< "NVIDIA H100 80GB HBM3"
  std::optional<ComputeCapability> compute_capability;  ///< none of the host
  std::int64_t multiprocessors = 0;
  Bytes memory;  ///< that the driver reports as total
  Bytes l2_cache;
  std::string driver;
  std::vector<std::string> libraries;  ///< "CUDA 13.0", "cuBLASLt 13.1.0", ...
  Bytes free_memory{};                 ///< of `memory`, when asked
  double busy_share = 0;  ///< of the driver's last interval, in which something ran: before any of
                          ///< ours did, the work of others. 0 where it is not known
};

/// When to stop timing one shape, and what to do before.
struct RulerSettings {
  Load load = Load::burst;
  double relative_error = 0.005;  ///< half of the median's 95 % interval, as a share of it: enough
  Seconds shortest{0.05};         ///< time in samples before that is believed
  Seconds longest{1.5};           ///< time in samples at most, however few they are
  Seconds sustained_for{3.0};     ///< under sustained load: busy before the first sample
  std::int64_t least_samples = 10;
};

/// One shape, timed.
struct Measurement {
  Seconds median;
  Seconds low;  ///< 95 % interval of the median
  Seconds high;
  std::int64_t samples = 0;
  double clock_mhz = 0;    ///< mean of the multiprocessors' clock while it ran; 0: not known
  bool throttled = false;  ///< the clock fell under nine tenths of the highest that was seen
};

/// A result of a kernel against its reference in double precision.
struct KernelCheck {
  std::string result;    ///< the operand's name: "dgamma"
  double error = 0;      ///< the largest, over the reference's magnitude or its root mean square;
                         ///< of attention the root mean square over the reference's
  double tolerance = 0;  ///< from the type's last place

  [[nodiscard]] bool passed() const { return error <= tolerance; }
};

/// AttentionShape::kernel of the kernels that are measured; an empty name is either.
inline constexpr const char* kGpuAttention = "cudnn";
inline constexpr const char* kHostAttention = "eigen";

/// Measures kernels. Throws EnvironmentError where the device fails.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend(Backend&&) = delete;
  Backend& operator=(const Backend&) = delete;
  Backend& operator=(Backend&&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual DeviceFacts facts() const = 0;
  /// Whether it has a kernel for the shape, and the memory.
  [[nodiscard]] virtual bool can_measure(const KernelShape& shape) const = 0;
  /// Each result of the kernel at a small shape of the kind; nothing where a kernel computes none.
  virtual std::vector<KernelCheck> check(const KernelShape& shape) = 0;
  /// How a result of the kernel differs from its reference, by a check that is made once for the
  /// shapes of a kind; nothing where none does. Other kernels of the device may be right.
  virtual std::optional<std::string> difference(const KernelShape& /*shape*/) {
    return std::nullopt;
  }
  /// Throws EnvironmentError where the kernel differs from its reference; else times it.
  virtual Measurement measure(const KernelShape& shape, const RulerSettings& settings) = 0;
  /// A ceiling, where measure() says what frameworks get: they run the kernel that the library
  /// ranks first, and this the fastest of those that it ranks, each timed under the settings.
  virtual Measurement measure_best(const MatmulShape& shape, const RulerSettings& settings) {
    return measure(shape, settings);
  }
  /// Times a call that is busy for as long as it is told: what tests the ruler.
  virtual Measurement measure_spin(Seconds time, const RulerSettings& settings) = 0;
};

/// The processor that this program runs on, one thread of it: matrix products by Eigen, kernels as
/// plain loops, in fp32.
std::unique_ptr<Backend> open_host_backend();

/// The GPU that the CUDA runtime names first. Opens the module that holds the kernels: beside the
/// executable, in ../lib, then where the loader looks. Throws EnvironmentError where the module, a
/// library that it needs, the driver or a device is missing.
std::unique_ptr<Backend> open_cuda_backend();

}  // namespace memest
