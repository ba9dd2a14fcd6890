#include "kernels/cross_entropy.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/loops.hpp"

namespace memest::kernels {
namespace {

Operand targets(const StreamShape& shape) {
  return {.name = "targets",
          .dtype = DType::int64,
          .elements = shape.rows,
          .fill = Fill::index,
          .limit = shape.columns};
}

Description describe(const StreamShape& shape) {
  return {
      .operands = {array("logits", shape), targets(shape), of_rows("loss", shape, Access::writes),
                   of_rows("lse", shape, Access::writes)},
      .flops = 5 * elements_of(shape)};
}
Description describe_backward(const StreamShape& shape) {
  return {.operands = {array("logits", shape), targets(shape),
                       of_rows("lse", shape, Access::reads, Fill::positive),
                       array("dlogits", shape, Access::writes)},
          .flops = 3 * elements_of(shape)};
}

struct CrossEntropy {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const T* x = row_of(operands[0], shape, row);
      // exp(x - largest) never exceeds 1, so no sum overflows.
      const T largest = *std::max_element(x, x + shape.columns);
      double sum = 0;
      for (std::int64_t c = 0; c < shape.columns; ++c) sum += std::exp(x[c] - largest);
      const T lse = static_cast<T>(largest + std::log(sum));
      operands[2][row] = lse - x[static_cast<std::int64_t>(operands[1][row])];
      operands[3][row] = lse;
    }
  }
};
struct CrossEntropyBackward {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    const T share = T{1} / static_cast<T>(shape.rows);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const T* x = row_of(operands[0], shape, row);
      T* dx = row_of(operands[3], shape, row);
      const T lse = operands[2][row];
      for (std::int64_t c = 0; c < shape.columns; ++c) dx[c] = std::exp(x[c] - lse) * share;
      // softmax less one at the target, over the rows that the mean is taken of.
      dx[static_cast<std::int64_t>(operands[1][row])] -= share;
    }
  }
};

constexpr std::array kKernels = {
    stream_kernel<CrossEntropy>(StreamOp::cross_entropy, KernelPass::forward, describe),
    stream_kernel<CrossEntropyBackward>(StreamOp::cross_entropy, KernelPass::backward,
                                        describe_backward)};

}  // namespace

std::span<const StreamKernel> cross_entropy_kernels() { return kKernels; }

}  // namespace memest::kernels
