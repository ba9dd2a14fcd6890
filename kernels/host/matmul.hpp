// Matrix products on the host, by Eigen on one thread in fp32.
#pragma once

#include "memest/spec/gpu/kernel_shape.hpp"

namespace memest::kernels {

struct HostMatmulOperands {
  const float* left = nullptr;
  const float* right = nullptr;
  float* result = nullptr;
};

/// Operands laid out as matmul.hpp says, the result row-major [m, n].
void host_matmul(const MatmulShape& shape, const HostMatmulOperands& operands);

}  // namespace memest::kernels
