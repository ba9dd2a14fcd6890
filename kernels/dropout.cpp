#include "kernels/dropout.hpp"

#include <array>

#include "kernels/loops.hpp"
#include "kernels/philox.hpp"

namespace memest::kernels {
namespace {

Operand mask(const StreamShape& shape, Access access) {
  return {.name = "mask",
          .dtype = DType::boolean,
          .elements = elements_of(shape),
          .access = access,
          .fill = Fill::index,
          .limit = 2};
}

Description describe(const StreamShape& shape) {
  return {.operands = {array("x", shape), array("y", shape, Access::writes),
                       mask(shape, Access::writes)},
          .flops = elements_of(shape)};
}
Description describe_backward(const StreamShape& shape) {
  return {.operands = {array("dy", shape), mask(shape, Access::reads),
                       array("dx", shape, Access::writes)},
          .flops = elements_of(shape)};
}

template <class T>
constexpr T kKeptFactor = 1 / (1 - T{kDropped});

struct Dropout {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    PhiloxWords words{};
    for (std::int64_t i = 0; i < elements_of(shape); ++i) {
      // Philox makes four words of a counter, so each serves four elements.
      if (i % 4 == 0) words = random_words(static_cast<std::uint64_t>(i / 4), kDropoutSeed);
      const bool stays = unit_interval(words.at[i % 4]) >= kDropped;
      operands[1][i] = stays ? operands[0][i] * kKeptFactor<T> : T{0};
      operands[2][i] = stays ? T{1} : T{0};
    }
  }
};
struct DropoutBackward {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    for (std::int64_t i = 0; i < elements_of(shape); ++i) {
      operands[2][i] = operands[0][i] * operands[1][i] * kKeptFactor<T>;
    }
  }
};

constexpr std::array kKernels = {
    stream_kernel<Dropout>(StreamOp::dropout, KernelPass::forward, describe),
    stream_kernel<DropoutBackward>(StreamOp::dropout, KernelPass::backward, describe_backward)};

}  // namespace

std::span<const StreamKernel> dropout_kernels() { return kKernels; }

}  // namespace memest::kernels
