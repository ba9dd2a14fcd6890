// CUDA's words as host C++, for kernels whose arithmetic is tested without a GPU. The threads of a
// block are fibers that run one after another, a warp as far as it comes before the next; blocks
// follow one another. A store is seen at once by the threads that run later and not by those that
// ran before, so that a missing barrier shows as a wrong result in one of the two orders.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#include "kernels/call.hpp"
#include "kernels/device/grid.hpp"

#define __global__
#define __device__
#define __shared__ static  // blocks follow one another
#define __launch_bounds__(...)

struct EmulatedIndex {
  unsigned x = 0;
  unsigned y = 0;
};
inline EmulatedIndex threadIdx;  // of the fiber that runs
inline EmulatedIndex blockIdx;
inline EmulatedIndex blockDim;
inline EmulatedIndex gridDim;

struct alignas(8) uint2 {
  std::uint32_t x, y;
};
struct alignas(16) uint4 {
  std::uint32_t x, y, z, w;
};

void __syncthreads();
/// Of all 32 lanes of a warp.
float __shfl_xor_sync(unsigned lanes, float value, int mask);

template <class Word>
Word __ldcs(const Word* from) {
  return *from;
}
template <class Word>
void __stcs(Word* to, const Word& word) {
  *to = word;
}
inline float __uint_as_float(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline std::uint32_t __float_as_uint(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline void atomicMax(unsigned* to, unsigned value) { *to = *to < value ? value : *to; }
inline void atomicAdd(float* to, float value) { *to += value; }

namespace memest::kernels {

/// In which order the fibers of a block run.
enum class FiberOrder { first_to_last, last_to_first };

/// Runs `thread` on every thread of every block. Throws std::logic_error where some threads of a
/// block wait at a barrier or a shuffle that others never reach.
void run_emulated(const Grid& grid, const std::function<void()>& thread);

void set_fiber_order(FiberOrder order);

/// A small device, so that blocks that stay walk over several rows.
template <class... Parameters>
std::int64_t resident_blocks(void (*)(Parameters...), int) {
  return 3;
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const Grid& grid, Stream,
            const Arguments&... arguments) {
  run_emulated(grid, [&] { kernel(arguments...); });
}

}  // namespace memest::kernels
