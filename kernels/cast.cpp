#include "kernels/cast.hpp"

#include <algorithm>
#include <array>

#include "kernels/loops.hpp"

namespace memest::kernels {
namespace {

DType source_type(DType dtype) { return dtype == DType::fp8 ? DType::bf16 : dtype; }

DType result_type(DType dtype) {
  if (dtype == DType::fp8) return DType::fp8;
  return dtype == DType::bf16 ? DType::fp32 : DType::bf16;
}

Description describe(const StreamShape& shape) {
  const std::int64_t n = elements_of(shape);
  return {.operands = {{.name = "x", .dtype = source_type(shape.dtype), .elements = n},
                       {.name = "y",
                        .dtype = result_type(shape.dtype),
                        .elements = n,
                        .access = Access::writes}},
          .flops = shape.dtype == DType::fp8 ? n : 0};
}

struct Cast {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    const bool scaled = shape.dtype == DType::fp8;
    for (std::int64_t i = 0; i < elements_of(shape); ++i) {
      const T x = operands[0][i];
      operands[1][i] = scaled ? std::clamp(T{kFp8Scale} * x, -T{kFp8Largest}, T{kFp8Largest}) : x;
    }
  }
};

constexpr std::array kKernels = {
    stream_kernel<Cast>(StreamOp::cast, KernelPass::forward, describe)};

}  // namespace

std::span<const StreamKernel> cast_kernels() { return kKernels; }

}  // namespace memest::kernels
