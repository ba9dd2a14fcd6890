// Bytes and FLOPs of the kernels, in closed form: a sweep of shapes is made of them.
#pragma once

#include <optional>

#include "memest/spec/gpu/kernel_shape.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// Bytes that a kernel must read and write, each once, whatever `shape.bytes` says. None if the op
/// has no kernel in that pass.
std::optional<Bytes> stream_traffic(const StreamShape& shape);

/// A multiply and an add for each of batch·m·n·k.
Flops matmul_flops(const MatmulShape& shape);
/// Both operands read, the result written, and read where it is added to.
Bytes matmul_traffic(const MatmulShape& shape);

/// FLOPs of 2 products forward, 5 backward; of causal attention the half that is computed.
Flops attention_flops(const AttentionShape& shape);

}  // namespace memest
