// Fused attention on the device, by cuDNN through its frontend. Both may be missing: the frontend's
// headers where this is built (then nothing is supported), the library where it runs.
//
// Backward is by the algorithm that frameworks get unless they ask for another: it adds into dQ in
// no fixed order, and is faster than the deterministic one.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/workload.hpp"

namespace memest::kernels {

class CudnnAttention {
 public:
  CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention(CudnnAttention&&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;
  CudnnAttention& operator=(CudnnAttention&&) = delete;
  ~CudnnAttention();

  /// "cuDNN 9.19.0"; empty where it is missing.
  [[nodiscard]] std::string library() const;
  /// Whether the library says that it has a kernel for the shape on this device.
  [[nodiscard]] bool supports(const AttentionShape& shape) const;
  /// Compiles the kernel. Throws EnvironmentError where that fails.
  [[nodiscard]] Workload workload(const AttentionShape& shape) const;

 private:
  class Plans;
  std::unique_ptr<Plans> plans_;  // null where the library is missing
};

}  // namespace memest::kernels
