#include "kernels/cast.hpp"
#include "kernels/device/map.cuh"
#include "kernels/device/row.cuh"

namespace memest::kernels {
namespace {

struct Cast {
  static constexpr int kInputs = 1;
  static constexpr int kOutputs = 1;
  static __device__ void of(const float (&in)[1], float (&out)[1]) { out[0] = in[0]; }
};
struct ScaledCast {
  static constexpr int kInputs = 1;
  static constexpr int kOutputs = 1;
  static __device__ void of(const float (&in)[1], float (&out)[1]) { out[0] = kFp8Scale * in[0]; }
};

constexpr std::int64_t kSegment = 8192;  // elements of a block, four vectors a thread

__global__ void __launch_bounds__(kWarp) clear(unsigned* bits) {
  if (threadIdx.x == 0) *bits = 0;
}

/// Raises `bits`, those of a float that is not negative and so is ordered as they are.
__global__ void __launch_bounds__(kUsualThreads)
    raise_to_largest(const Bf16* x, std::int64_t elements, unsigned* bits) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * kSegment;
  const std::int64_t left = elements - begin;
  const Extent<int> extent{.count = static_cast<int>(left < kSegment ? left : kSegment)};
  const Rows<Bf16, 1> segment({x + begin}, extent);
  float largest = 0;
  segment.each_element([&](const float(&value)[1]) { largest = fmaxf(largest, fabsf(value[0])); });
  largest = reduce_row<Largest>(largest);
  if (threadIdx.x == 0) atomicMax(bits, __float_as_uint(largest));
}

struct FittingCast {
  static constexpr int kWidth = kLanes<Bf16>;
  static constexpr int kInFlight = 4;
  using Loaded = Vector<Bf16>;

  const Bf16* x;
  Fp8* y;
  const float* largest;
  float* inverse;
  Extent<std::int64_t> extent;

  __device__ Loaded load(std::int64_t first) const {
    return memest::kernels::load<kWidth>(x, first, extent);
  }
  __device__ void store(std::int64_t first, const Loaded& loaded) const {
    const float scale = fp8_scale(*largest);
    Vector<Fp8, kWidth> result;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) result.set(e, scale * loaded[e]);
    memest::kernels::store(y, first, extent, result);
    if (first == 0) *inverse = 1 / scale;
  }
};

}  // namespace

void launch_fitting_cast(const Call& call) {
  launch(clear, {.x = kWarp}, call.stream, call.operand<unsigned>(2));
  launch(raise_to_largest, {.blocks = divided_up(call.elements(), kSegment), .x = kUsualThreads},
         call.stream, call.operand<const Bf16>(0), call.elements(), call.operand<unsigned>(2));
  launch_map(FittingCast{.x = call.operand<const Bf16>(0),
                         .y = call.operand<Fp8>(1),
                         .largest = call.operand<const float>(2),
                         .inverse = call.operand<float>(3),
                         .extent = {.count = call.elements()}},
             call);
}

void launch_cast(const Call& call) {
  if (call.dtype == DType::fp8) {
    launch_map(Elementwise<Bf16, Fp8, ScaledCast>(call), call);
  } else if (call.dtype == DType::bf16) {
    launch_map(Elementwise<Bf16, float, Cast>(call), call);
  } else {
    launch_map(Elementwise<float, Bf16, Cast>(call), call);
  }
}

}  // namespace memest::kernels
