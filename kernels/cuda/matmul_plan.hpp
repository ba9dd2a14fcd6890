// One matrix product as cuBLASLt wants it described.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/matmul.hpp"
#include "kernels/harness/check.hpp"

namespace memest::kernels {

template <auto destroy>
struct Destroys {
  template <class Handle>
  void operator()(Handle* handle) const {
    destroy(handle);
  }
};

using MatmulOperation =
    std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroys<cublasLtMatmulDescDestroy>>;
using MatrixLayout =
    std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroys<cublasLtMatrixLayoutDestroy>>;
using MatmulPreference =
    std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroys<cublasLtMatmulPreferenceDestroy>>;

/// The library counts columns first, so it is asked for Cᵀ = Bᵀ·Aᵀ: its first matrix is our right
/// one.
struct MatmulPlan {
  MatmulPlan(const CublasLt& of, const MatmulShape& shape);

  const CublasLt& library;
  float beta;
  MatmulOperation operation;
  MatrixLayout right;
  MatrixLayout left;
  MatrixLayout result;
  std::vector<cublasLtMatmulHeuristicResult_t> ranked;  ///< the library's best guess first

  /// Products to come are multiplied by the fp32 at `scale` on the device. Only for fp8.
  void scale_left_by(const void* scale) const;
  void enqueue(int rank, void* const* operands, Stream stream) const;
};

}  // namespace memest::kernels
