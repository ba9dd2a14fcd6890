// Matrix products on the device, by cuBLASLt.
#pragma once

#include <memory>

#include "kernels/cuda/workload.hpp"
#include "kernels/harness/memory.hpp"
#include "memest/spec/gpu/gpu_target.hpp"

namespace memest::kernels {

/// The library's handle and its scratch memory. One stream uses it.
class CublasLt {
 public:
  explicit CublasLt(ComputeCapability capability);
  CublasLt(const CublasLt&) = delete;
  CublasLt(CublasLt&&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;
  CublasLt& operator=(CublasLt&&) = delete;
  ~CublasLt() { cublasLtDestroy(handle_); }

  [[nodiscard]] cublasLtHandle_t handle() const { return handle_; }
  [[nodiscard]] const DeviceMemory& workspace() const { return workspace_; }
  [[nodiscard]] ComputeCapability capability() const { return capability_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
  ComputeCapability capability_;
  DeviceMemory workspace_;
};

/// Whether the library has a kernel for the shape, and this room the cast that is included.
bool can_multiply(const CublasLt& library, const MatmulShape& shape);

/// By the kernel that the library's heuristic ranks `rank`-th: 0 is what frameworks run. Throws
/// EnvironmentError where it has fewer.
Workload matmul_workload(const CublasLt& library, const MatmulShape& shape, int rank = 0);

/// How many kernels the heuristic ranks, at most eight.
int matmul_ranks(const CublasLt& library, const MatmulShape& shape);

}  // namespace memest::kernels
