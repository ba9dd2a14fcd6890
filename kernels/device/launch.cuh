// How kernels are launched: by a function and not by CUDA's angle brackets, so that the same
// sources compile as host C++ in tests, where blocks, threads, barriers and shuffles are emulated.
#pragma once

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "emulated_cuda.hpp"
#endif

#include "kernels/call.hpp"
#include "kernels/device/grid.hpp"

namespace memest::kernels {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFF;

#ifdef __CUDACC__

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const Grid& grid, Stream stream,
            const Arguments&... arguments) {
  // CUDA refuses a grid of no blocks, which an operand without elements asks for: the angles of
  // rows of one column.
  if (grid.blocks == 0) return;
  const dim3 threads(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y));
  kernel<<<static_cast<unsigned>(grid.blocks), threads, 0, stream>>>(arguments...);
  check_launch();
}

/// How many blocks of the kernel the device runs at once.
template <class... Parameters>
std::int64_t resident_blocks(void (*kernel)(Parameters...), int threads) {
  int device = 0;
  int multiprocessors = 0;
  int blocks = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) !=
          cudaSuccess ||
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0) != cudaSuccess) {
    check_launch();
  }
  return static_cast<std::int64_t>(multiprocessors) * blocks;
}

#endif

}  // namespace memest::kernels
