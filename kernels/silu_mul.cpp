#include "kernels/silu_mul.hpp"

#include <array>
#include <cmath>

#include "kernels/loops.hpp"

namespace memest::kernels {
namespace {

Description describe(const StreamShape& shape) { return arrays(shape, {"gate", "up"}, {"y"}, 5); }
Description describe_backward(const StreamShape& shape) {
  return arrays(shape, {"gate", "up", "dy"}, {"dgate", "dup"}, 11);
}

template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

struct SiluMul {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    for (std::int64_t i = 0; i < elements_of(shape); ++i) {
      const T gate = operands[0][i];
      operands[2][i] = gate * sigmoid(gate) * operands[1][i];
    }
  }
};
struct SiluMulBackward {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    for (std::int64_t i = 0; i < elements_of(shape); ++i) {
      const T gate = operands[0][i];
      const T up = operands[1][i];
      const T dy = operands[2][i];
      const T share = sigmoid(gate);
      operands[3][i] = dy * up * share * (1 + gate * (1 - share));
      operands[4][i] = dy * gate * share;
    }
  }
};

constexpr std::array kKernels = {
    stream_kernel<SiluMul>(StreamOp::silu_mul, KernelPass::forward, describe),
    stream_kernel<SiluMulBackward>(StreamOp::silu_mul, KernelPass::backward, describe_backward)};

}  // namespace

std::span<const StreamKernel> silu_mul_kernels() { return kKernels; }

}  // namespace memest::kernels
