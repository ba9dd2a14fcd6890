#include "kernels/rmsnorm.hpp"

#include <array>
#include <cmath>

#include "kernels/loops.hpp"
#include "kernels/norm_partials.hpp"

namespace memest::kernels {
namespace {

Description describe(const StreamShape& shape) {
  return {.operands = {array("x", shape), row("gamma", shape), array("y", shape, Access::writes),
                       of_rows("rstd", shape, Access::writes)},
          .flops = 4 * elements_of(shape)};
}
Description describe_backward(const StreamShape& shape) {
  return {.operands = {array("x", shape),
                       row("gamma", shape),
                       of_rows("rstd", shape, Access::reads, Fill::positive),
                       array("dy", shape),
                       array("dx", shape, Access::writes),
                       row("dgamma", shape, Access::writes),
                       {.name = "partials",
                        .elements = kMostPartials * shape.columns,
                        .access = Access::scratch}},
          .flops = 9 * elements_of(shape)};
}

struct RmsNorm {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    const T* gamma = operands[1];
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      const T* x = row_of(operands[0], shape, r);
      T* y = row_of(operands[2], shape, r);
      double squares = 0;
      for (std::int64_t c = 0; c < shape.columns; ++c) squares += x[c] * x[c];
      const double mean_square = squares / static_cast<double>(shape.columns);
      const T rstd = static_cast<T>(1 / std::sqrt(mean_square + kRmsNormEpsilon));
      for (std::int64_t c = 0; c < shape.columns; ++c) y[c] = gamma[c] * (x[c] * rstd);
      operands[3][r] = rstd;
    }
  }
};

struct RmsNormBackward {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    const T* gamma = operands[1];
    T* dgamma = operands[5];
    for (std::int64_t c = 0; c < shape.columns; ++c) dgamma[c] = 0;
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      const T* x = row_of(operands[0], shape, r);
      const T* dy = row_of(operands[3], shape, r);
      T* dx = row_of(operands[4], shape, r);
      const T rstd = operands[2][r];
      double product = 0;
      for (std::int64_t c = 0; c < shape.columns; ++c) {
        product += gamma[c] * dy[c] * (x[c] * rstd);
        dgamma[c] += dy[c] * (x[c] * rstd);
      }
      const T mean_product = static_cast<T>(product / static_cast<double>(shape.columns));
      for (std::int64_t c = 0; c < shape.columns; ++c) {
        dx[c] = rstd * (gamma[c] * dy[c] - x[c] * rstd * mean_product);
      }
    }
  }
};

constexpr std::array kKernels = {
    stream_kernel<RmsNorm>(StreamOp::rmsnorm, KernelPass::forward, describe),
    stream_kernel<RmsNormBackward>(StreamOp::rmsnorm, KernelPass::backward, describe_backward)};

}  // namespace

std::span<const StreamKernel> rmsnorm_kernels() { return kKernels; }

}  // namespace memest::kernels
