// Traffic of PyTorch's operators, and the kernel's law that it follows.
#pragma once

#include "memest/spec/gpu/kernel_shape.hpp"
#include "memest/spec/recorded/recorded_work.hpp"

namespace memest {

/// Bytes that an operator's kernels read and write once. Throws OverflowError.
Bytes traffic_of(const RecordedOperator& op);

/// The stream of that traffic.
StreamShape stream_of(const RecordedOperator& op);

}  // namespace memest
