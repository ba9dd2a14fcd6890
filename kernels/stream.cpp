#include "kernels/stream.hpp"

#include <algorithm>
#include <array>

#include "kernels/loops.hpp"

namespace memest::kernels {
namespace {

std::int64_t segments(const StreamShape& shape) {
  return (elements_of(shape) + kReadSegment - 1) / kReadSegment;
}

Description describe_read(const StreamShape& shape) {
  return {.operands = {array("x", shape),
                       {.name = "y", .elements = segments(shape), .access = Access::writes}},
          .flops = elements_of(shape)};
}
Description describe_write(const StreamShape& shape) { return arrays(shape, {}, {"y"}, 0); }
Description describe_copy(const StreamShape& shape) { return arrays(shape, {"x"}, {"y"}, 0); }
Description describe_scale(const StreamShape& shape) { return arrays(shape, {"x"}, {"y"}, 1); }
Description describe_add(const StreamShape& shape) { return arrays(shape, {"x", "y"}, {"z"}, 1); }
Description describe_triad(const StreamShape& shape) { return arrays(shape, {"x", "y"}, {"z"}, 2); }

struct Read {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    for (std::int64_t i = 0; i < segments(shape); ++i) {
      const std::int64_t end = std::min((i + 1) * kReadSegment, elements_of(shape));
      // In double, also where the loops run in float: 8,192 terms would lose digits.
      double sum = 0;
      for (std::int64_t j = i * kReadSegment; j < end; ++j) sum += operands[0][j];
      operands[1][i] = static_cast<T>(sum);
    }
  }
};
struct Write {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    for (std::int64_t i = 0; i < elements_of(shape); ++i) operands[0][i] = T{kWritten};
  }
};
struct Copy {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    for (std::int64_t i = 0; i < elements_of(shape); ++i) operands[1][i] = operands[0][i];
  }
};
struct Scale {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    for (std::int64_t i = 0; i < elements_of(shape); ++i) {
      operands[1][i] = T{kStreamFactor} * operands[0][i];
    }
  }
};
struct Add {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    for (std::int64_t i = 0; i < elements_of(shape); ++i) {
      operands[2][i] = operands[0][i] + operands[1][i];
    }
  }
};
struct Triad {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    for (std::int64_t i = 0; i < elements_of(shape); ++i) {
      operands[2][i] = operands[0][i] + T{kStreamFactor} * operands[1][i];
    }
  }
};

constexpr std::array kKernels = {
    stream_kernel<Read>(StreamOp::read, KernelPass::forward, describe_read),
    stream_kernel<Write>(StreamOp::write, KernelPass::forward, describe_write),
    stream_kernel<Copy>(StreamOp::copy, KernelPass::forward, describe_copy),
    stream_kernel<Scale>(StreamOp::scale, KernelPass::forward, describe_scale),
    stream_kernel<Add>(StreamOp::add, KernelPass::forward, describe_add),
    stream_kernel<Triad>(StreamOp::triad, KernelPass::forward, describe_triad)};

}  // namespace

std::span<const StreamKernel> array_kernels() { return kKernels; }

}  // namespace memest::kernels
