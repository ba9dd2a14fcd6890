// How the plain loops of a kernel are written and put into the table of kernels: once, as templates
// on the type that holds the operands.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

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

// Operands of the shape's type, an element for each of the array's or of a row's; and of fp32, one
// for each row.
inline Operand array(std::string_view name, const StreamShape& shape,
                     Access access = Access::reads) {
  return {.name = name, .dtype = shape.dtype, .elements = elements_of(shape), .access = access};
}
inline Operand row(std::string_view name, const StreamShape& shape, Access access = Access::reads) {
  return {.name = name, .dtype = shape.dtype, .elements = shape.columns, .access = access};
}
inline Operand of_rows(std::string_view name, const StreamShape& shape,
                       Access access = Access::reads, Fill fill = Fill::normal) {
  return {.name = name, .elements = shape.rows, .access = access, .fill = fill};
}

/// Arrays read, then arrays written.
inline Description arrays(const StreamShape& shape, std::initializer_list<std::string_view> inputs,
                          std::initializer_list<std::string_view> outputs,
                          std::int64_t flops_per_element) {
  Description description{.operands = {}, .flops = flops_per_element * elements_of(shape)};
  for (const auto name : inputs) description.operands.push_back(array(name, shape));
  for (const auto name : outputs) {
    description.operands.push_back(array(name, shape, Access::writes));
  }
  return description;
}

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
std::span<const StreamKernel> rotary_kernels();
std::span<const StreamKernel> adamw_kernels();

}  // namespace memest::kernels
