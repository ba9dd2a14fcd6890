// Sums and maxima over the threads that share a row: those of a block with the same y. Shuffles in
// a warp, one exchange through shared memory between warps.
#pragma once

#include "kernels/device/launch.cuh"

namespace memest::kernels {

struct Sum {
  static constexpr float kIdentity = 0;
  static __device__ float of(float a, float b) { return a + b; }
};
struct Largest {
  static constexpr float kIdentity = -3.402823466e38F;
  static __device__ float of(float a, float b) { return fmaxf(a, b); }
};

template <class How>
__device__ float reduce_warp(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = How::of(value, __shfl_xor_sync(kAllLanes, value, offset));
  }
  return value;
}

/// Every thread of the row gets the results. All threads of the block take part; blockDim.x is a
/// multiple of a warp.
template <class How, int kValues>
__device__ void reduce_row(float (&values)[kValues]) {
  __shared__ float of_warps[kValues][kWarp];  // at most 32 warps in a block
#pragma unroll
  for (int i = 0; i < kValues; ++i) values[i] = reduce_warp<How>(values[i]);
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  if (warps == 1) return;

  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int first_warp = static_cast<int>(threadIdx.y) * warps;
  __syncthreads();  // what the last reduction left here was read
  if (lane == 0) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      of_warps[i][first_warp + static_cast<int>(threadIdx.x) / kWarp] = values[i];
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    values[i] = reduce_warp<How>(lane < warps ? of_warps[i][first_warp + lane] : How::kIdentity);
  }
}

template <class How>
__device__ float reduce_row(float value) {
  float values[1] = {value};
  reduce_row<How>(values);
  return values[0];
}

}  // namespace memest::kernels
