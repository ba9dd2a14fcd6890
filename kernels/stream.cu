#include "kernels/device/map.cuh"
#include "kernels/device/row.cuh"
#include "kernels/stream.hpp"

namespace memest::kernels {
namespace {

struct Copy {
  static constexpr int kInputs = 1;
  static constexpr int kOutputs = 1;
  static __device__ void of(const float (&in)[1], float (&out)[1]) { out[0] = in[0]; }
};
struct Scale {
  static constexpr int kInputs = 1;
  static constexpr int kOutputs = 1;
  static __device__ void of(const float (&in)[1], float (&out)[1]) {
    out[0] = kStreamFactor * in[0];
  }
};
struct Add {
  static constexpr int kInputs = 2;
  static constexpr int kOutputs = 1;
  static __device__ void of(const float (&in)[2], float (&out)[1]) { out[0] = in[0] + in[1]; }
};
struct Triad {
  static constexpr int kInputs = 2;
  static constexpr int kOutputs = 1;
  static __device__ void of(const float (&in)[2], float (&out)[1]) {
    out[0] = in[0] + kStreamFactor * in[1];
  }
};

template <class T>
struct Write {
  static constexpr int kWidth = kLanes<T>;
  static constexpr int kInFlight = 4;
  struct Loaded {};

  T* y;
  Extent<std::int64_t> extent;

  __device__ Loaded load(std::int64_t) const { return {}; }
  __device__ void store(std::int64_t first, const Loaded&) const {
    Vector<T> vector;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) vector.set(e, kWritten);
    memest::kernels::store(y, first, extent, vector);
  }
};

template <class T>
__global__ void __launch_bounds__(kUsualThreads)
    sum_segments(const T* x, std::int64_t elements, float* sums) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * kReadSegment;
  const std::int64_t left = elements - begin;
  const Extent<int> extent{.count = static_cast<int>(left < kReadSegment ? left : kReadSegment)};
  const Rows<T, 1> segment({x + begin}, extent);
  float sum = 0;
  segment.each_element([&](const float(&value)[1]) { sum += value[0]; });
  sum = reduce_row<Sum>(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

template <class T>
void launch_read_of(const Call& call) {
  launch(sum_segments<T>, {.blocks = divided_up(call.elements(), kReadSegment), .x = kUsualThreads},
         call.stream, call.operand<const T>(0), call.elements(), call.operand<float>(1));
}
template <class T>
void launch_write_of(const Call& call) {
  launch_map(Write<T>{.y = call.operand<T>(0), .extent = {.count = call.elements()}}, call);
}

}  // namespace

void launch_read(const Call& call) {
  call.dtype == DType::bf16 ? launch_read_of<Bf16>(call) : launch_read_of<float>(call);
}
void launch_write(const Call& call) {
  call.dtype == DType::bf16 ? launch_write_of<Bf16>(call) : launch_write_of<float>(call);
}
void launch_copy(const Call& call) { launch_elementwise<Copy>(call); }
void launch_scale(const Call& call) { launch_elementwise<Scale>(call); }
void launch_add(const Call& call) { launch_elementwise<Add>(call); }
void launch_triad(const Call& call) { launch_elementwise<Triad>(call); }

}  // namespace memest::kernels
