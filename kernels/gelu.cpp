#include "kernels/gelu.hpp"

#include <array>
#include <cmath>

#include "kernels/loops.hpp"

namespace memest::kernels {
namespace {

Description describe(const StreamShape& shape) {
  const std::int64_t n = elements_of(shape);
  return {
      .operands = {{.name = "x", .dtype = shape.dtype, .elements = n},
                   {.name = "y", .dtype = shape.dtype, .elements = n, .access = Access::writes}},
      .flops = 5 * n};
}
Description describe_backward(const StreamShape& shape) {
  const std::int64_t n = elements_of(shape);
  return {
      .operands = {{.name = "x", .dtype = shape.dtype, .elements = n},
                   {.name = "dy", .dtype = shape.dtype, .elements = n},
                   {.name = "dx", .dtype = shape.dtype, .elements = n, .access = Access::writes}},
      .flops = 10 * n};
}

template <class T>
T normal_cdf(T x) {
  return (1 + std::erf(x * static_cast<T>(kInverseSqrt2))) / 2;
}

struct Gelu {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    for (std::int64_t i = 0; i < elements_of(shape); ++i) {
      const T x = operands[0][i];
      operands[1][i] = x * normal_cdf(x);
    }
  }
};
struct GeluBackward {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    for (std::int64_t i = 0; i < elements_of(shape); ++i) {
      const T x = operands[0][i];
      const T density = static_cast<T>(kInverseSqrt2Pi) * std::exp(-x * x / 2);
      operands[2][i] = operands[1][i] * (normal_cdf(x) + x * density);
    }
  }
};

constexpr std::array kKernels = {
    stream_kernel<Gelu>(StreamOp::gelu, KernelPass::forward, describe),
    stream_kernel<GeluBackward>(StreamOp::gelu, KernelPass::backward, describe_backward)};

}  // namespace

std::span<const StreamKernel> gelu_kernels() { return kKernels; }

}  // namespace memest::kernels
