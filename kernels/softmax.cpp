#include "kernels/softmax.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/loops.hpp"

namespace memest::kernels {
namespace {

Description describe(const StreamShape& shape) { return arrays(shape, {"x"}, {"y"}, 5); }
Description describe_backward(const StreamShape& shape) {
  return arrays(shape, {"y", "dy"}, {"dx"}, 4);
}

struct Softmax {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const T* x = row_of(operands[0], shape, row);
      T* y = row_of(operands[1], shape, row);
      const T largest = *std::max_element(x, x + shape.columns);
      double sum = 0;
      for (std::int64_t c = 0; c < shape.columns; ++c) sum += y[c] = std::exp(x[c] - largest);
      for (std::int64_t c = 0; c < shape.columns; ++c) y[c] = static_cast<T>(y[c] / sum);
    }
  }
};
struct SoftmaxBackward {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const T* y = row_of(operands[0], shape, row);
      const T* dy = row_of(operands[1], shape, row);
      T* dx = row_of(operands[2], shape, row);
      double product = 0;
      for (std::int64_t c = 0; c < shape.columns; ++c) product += y[c] * dy[c];
      for (std::int64_t c = 0; c < shape.columns; ++c) {
        dx[c] = static_cast<T>(y[c] * (dy[c] - product));
      }
    }
  }
};

constexpr std::array kKernels = {
    stream_kernel<Softmax>(StreamOp::softmax, KernelPass::forward, describe),
    stream_kernel<SoftmaxBackward>(StreamOp::softmax, KernelPass::backward, describe_backward)};

}  // namespace

std::span<const StreamKernel> softmax_kernels() { return kKernels; }

}  // namespace memest::kernels
