#include "kernels/rotary.hpp"

#include <array>

#include "kernels/loops.hpp"

namespace memest::kernels {
namespace {

Operand table(std::string_view name, const StreamShape& shape) {
  const std::int64_t positions = (shape.rows + kRotaryHeads - 1) / kRotaryHeads;
  return {.name = name, .dtype = shape.dtype, .elements = positions * (shape.columns / 2)};
}

Description describe(const StreamShape& shape) {
  return {.operands = {array("x", shape), table("cos", shape), table("sin", shape),
                       array("y", shape, Access::writes)},
          .flops = 3 * elements_of(shape)};
}
Description describe_backward(const StreamShape& shape) {
  Description description = describe(shape);
  description.operands.front().name = "dy";
  description.operands.back().name = "dx";
  return description;
}

/// Turns by the angles of the tables times `kSign`.
template <int kSign>
struct Rotary {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    const std::int64_t half = shape.columns / 2;
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      const T* x = row_of(operands[0], shape, r);
      const T* cosines = operands[1] + r / kRotaryHeads * half;
      const T* sines = operands[2] + r / kRotaryHeads * half;
      T* y = row_of(operands[3], shape, r);
      for (std::int64_t c = 0; c < half; ++c) {
        const T sine = kSign * sines[c];
        y[c] = x[c] * cosines[c] - x[half + c] * sine;
        y[half + c] = x[half + c] * cosines[c] + x[c] * sine;
      }
      if (shape.columns % 2 != 0) y[2 * half] = x[2 * half];
    }
  }
};

constexpr std::array kKernels = {
    stream_kernel<Rotary<1>>(StreamOp::rotary, KernelPass::forward, describe),
    stream_kernel<Rotary<-1>>(StreamOp::rotary, KernelPass::backward, describe_backward)};

}  // namespace

std::span<const StreamKernel> rotary_kernels() { return kKernels; }

}  // namespace memest::kernels
