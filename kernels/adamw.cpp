#include "kernels/adamw.hpp"

#include <array>
#include <cmath>

#include "kernels/loops.hpp"

namespace memest::kernels {
namespace {

/// fp32: parameter, gradient, m, v. bf16: parameter, gradient, master, m, v.
Description describe(const StreamShape& shape) {
  const std::int64_t n = elements_of(shape);
  const bool has_master = shape.dtype == DType::bf16;
  Description description{.operands = {{.name = "parameter",
                                        .dtype = shape.dtype,
                                        .elements = n,
                                        .access = has_master ? Access::writes : Access::updates},
                                       {.name = "gradient", .dtype = shape.dtype, .elements = n}},
                          .flops = 15 * n};
  if (has_master) {
    description.operands.push_back({.name = "master", .elements = n, .access = Access::updates});
  }
  description.operands.push_back({.name = "m", .elements = n, .access = Access::updates});
  description.operands.push_back(
      {.name = "v", .elements = n, .access = Access::updates, .fill = Fill::positive});
  return description;
}

struct Adamw {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    constexpr AdamwStep kStep;
    const bool has_master = shape.dtype == DType::bf16;
    T* master = operands[has_master ? 2 : 0];
    T* const* moments = operands + (has_master ? 3 : 2);
    for (std::int64_t i = 0; i < elements_of(shape); ++i) {
      const T gradient = operands[1][i];
      T& m = moments[0][i];
      T& v = moments[1][i];
      m = T{kStep.beta1} * m + (1 - T{kStep.beta1}) * gradient;
      v = T{kStep.beta2} * v + (1 - T{kStep.beta2}) * gradient * gradient;
      const T root = std::sqrt(v / T{kStep.correction2});
      const T update = m / T{kStep.correction1} / (root + T{kStep.epsilon});
      master[i] = master[i] * (1 - T{kStep.rate} * T{kStep.decay}) - T{kStep.rate} * update;
      operands[0][i] = master[i];
    }
  }
};

constexpr std::array kKernels = {
    stream_kernel<Adamw>(StreamOp::adamw, KernelPass::forward, describe)};

}  // namespace

std::span<const StreamKernel> adamw_kernels() { return kKernels; }

}  // namespace memest::kernels
