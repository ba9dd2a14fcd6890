// Matrix products as linear layers run them. A product C[m, n] = A[m, k]·B[k, n] of a pass stores
// its operands as the layer does, so that a library picks the kernel that a training run gets:
//
//   forward           y[m, n] = x[m, k]·W[n, k]ᵀ      both operands' rows run along k (TN)
//   data gradient     dx[m, n] = dy[m, k]·W[k, n]     (NN)
//   weight gradient   dW[m, n] = dy[k, m]ᵀ·x[k, n]    both columns run along k (NT)
//
// 2·batch·m·n·k FLOPs; batch·((m·k + k·n)·w + m·n·w_result) bytes, the result twice where it is
// added to.
#pragma once

#include <cstdint>
#include <span>

#include "memest/spec/gpu/kernel_shape.hpp"

namespace memest::kernels {

/// Whether A is stored as [m, k], and B as [n, k]: rows along k. So is fp8 in every pass, because
/// tensor cores take nothing else and frameworks keep a transposed copy.
constexpr bool left_along_k(const MatmulShape& shape) {
  return shape.pass != MatmulPass::weight_gradient || shape.operand == DType::fp8;
}
constexpr bool right_along_k(const MatmulShape& shape) {
  return shape.pass == MatmulPass::forward || shape.operand == DType::fp8;
}

struct MatmulOperands {
  std::span<const double> left;
  std::span<const double> right;
  std::span<double> result;  ///< row-major [m, n]; added to where the shape says so
};

/// In double, as three loops.
void matmul_reference(const MatmulShape& shape, const MatmulOperands& operands);

}  // namespace memest::kernels
