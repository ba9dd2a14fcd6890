// Attention on the host, by Eigen on one thread in fp32: a block of queries against all keys that
// one of them sees, so that scores stay in a cache.
#pragma once

#include "memest/spec/gpu/kernel_shape.hpp"

namespace memest::kernels {

/// Operands as attention.hpp says.
void host_attention(const AttentionShape& shape, float* const* operands);

}  // namespace memest::kernels
