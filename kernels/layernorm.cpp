#include "kernels/layernorm.hpp"

#include <array>
#include <cmath>

#include "kernels/loops.hpp"
#include "kernels/norm_partials.hpp"

namespace memest::kernels {
namespace {

Description describe(const StreamShape& shape) {
  return {.operands = {array("x", shape), row("gamma", shape), row("beta", shape),
                       array("y", shape, Access::writes), of_rows("mean", shape, Access::writes),
                       of_rows("rstd", shape, Access::writes)},
          .flops = 8 * elements_of(shape)};
}
Description describe_backward(const StreamShape& shape) {
  return {.operands = {array("x", shape),
                       row("gamma", shape),
                       of_rows("mean", shape),
                       of_rows("rstd", shape, Access::reads, Fill::positive),
                       array("dy", shape),
                       array("dx", shape, Access::writes),
                       row("dgamma", shape, Access::writes),
                       row("dbeta", shape, Access::writes),
                       {.name = "partials",
                        .elements = 2 * kMostPartials * shape.columns,
                        .access = Access::scratch}},
          .flops = 14 * elements_of(shape)};
}

struct LayerNorm {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    const T* gamma = operands[1];
    const T* beta = operands[2];
    const double h = static_cast<double>(shape.columns);
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      const T* x = row_of(operands[0], shape, r);
      T* y = row_of(operands[3], shape, r);
      // Two passes, mean first: E[x²] - mean² would cancel where the mean is large.
      double mean = 0;
      for (std::int64_t c = 0; c < shape.columns; ++c) mean += x[c] / h;
      double variance = 0;
      for (std::int64_t c = 0; c < shape.columns; ++c)
        variance += (x[c] - mean) * (x[c] - mean) / h;
      const double rstd = 1 / std::sqrt(variance + kLayerNormEpsilon);
      for (std::int64_t c = 0; c < shape.columns; ++c) {
        y[c] = static_cast<T>((x[c] - mean) * rstd) * gamma[c] + beta[c];
      }
      operands[4][r] = static_cast<T>(mean);
      operands[5][r] = static_cast<T>(rstd);
    }
  }
};

struct LayerNormBackward {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    const T* gamma = operands[1];
    T* dgamma = operands[6];
    T* dbeta = operands[7];
    for (std::int64_t c = 0; c < shape.columns; ++c) dgamma[c] = dbeta[c] = 0;
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      const T* x = row_of(operands[0], shape, r);
      const T* dy = row_of(operands[4], shape, r);
      T* dx = row_of(operands[5], shape, r);
      const T mean = operands[2][r];
      const T rstd = operands[3][r];
      double sum = 0;
      double product = 0;
      for (std::int64_t c = 0; c < shape.columns; ++c) {
        const T normalized = (x[c] - mean) * rstd;
        sum += gamma[c] * dy[c];
        product += gamma[c] * dy[c] * normalized;
        dgamma[c] += dy[c] * normalized;
        dbeta[c] += dy[c];
      }
      const T mean_gradient = static_cast<T>(sum / static_cast<double>(shape.columns));
      const T mean_product = static_cast<T>(product / static_cast<double>(shape.columns));
      for (std::int64_t c = 0; c < shape.columns; ++c) {
        const T normalized = (x[c] - mean) * rstd;
        dx[c] = rstd * (gamma[c] * dy[c] - mean_gradient - normalized * mean_product);
      }
    }
  }
};

constexpr std::array kKernels = {
    stream_kernel<LayerNorm>(StreamOp::layernorm, KernelPass::forward, describe),
    stream_kernel<LayerNormBackward>(StreamOp::layernorm, KernelPass::backward, describe_backward)};

}  // namespace

std::span<const StreamKernel> layernorm_kernels() { return kKernels; }

}  // namespace memest::kernels
