// How the plain loops of a kernel are written and put into the table of kernels: once, as templates
// on the type that holds the operands.
#pragma once

#include <cstdint>

#include "kernels/description.hpp"

namespace memest::kernels {

/// The rows of one op in the table of kernels. `Loops` has `run<T>(shape, operands)`.
template <class Loops>
constexpr StreamKernel stream_kernel(StreamOp op, KernelPass pass,
                                     Description (*describe)(const StreamShape&)) {
  return {.op = op,
          .pass = pass,
          .describe = describe,
          .reference = &Loops::template run<double>,
          .loops = &Loops::template run<float>};
}

constexpr std::int64_t elements_of(const StreamShape& shape) { return shape.rows * shape.columns; }

/// A row of a row-major array.
template <class T>
T* row_of(T* array, const StreamShape& shape, std::int64_t row) {
  return array + row * shape.columns;
}

// The kernels of each op, in the order of StreamOp.
std::span<const StreamKernel> array_kernels();
std::span<const StreamKernel> cast_kernels();
std::span<const StreamKernel> gelu_kernels();
std::span<const StreamKernel> silu_mul_kernels();
std::span<const StreamKernel> dropout_kernels();
std::span<const StreamKernel> softmax_kernels();
std::span<const StreamKernel> layernorm_kernels();
std::span<const StreamKernel> rmsnorm_kernels();
std::span<const StreamKernel> cross_entropy_kernels();
std::span<const StreamKernel> embedding_kernels();
std::span<const StreamKernel> adamw_kernels();

}  // namespace memest::kernels
