#include "kernels/device/vector.cuh"
#include "kernels/fill_device.hpp"
#include "kernels/philox.hpp"

namespace memest::kernels {
namespace {

constexpr int kThreads = 256;

__device__ float normal(std::uint32_t first, std::uint32_t second) {
  constexpr float kTwoPi = 6.283185307F;
  return sqrtf(-2 * logf(unit_interval(first))) * cosf(kTwoPi * unit_interval(second));
}

__device__ float value(const DeviceFill& call, std::uint32_t first, std::uint32_t second) {
  switch (call.fill) {
    case Fill::normal:
      return normal(first, second);
    case Fill::positive:
      return fabsf(normal(first, second));
    case Fill::index:
      return static_cast<float>((static_cast<std::uint64_t>(call.limit) * first) >> 32);
  }
  return 0;
}

template <class T>
__device__ void put(T* to, float number) {
  *to = T{static_cast<decltype(T{}.bits)>(Codec<T>::encode(number))};
}
__device__ void put(float* to, float number) { *to = number; }
__device__ void put(std::int64_t* to, float number) { *to = static_cast<std::int64_t>(number); }

/// A thread makes two neighbours of one call of the generator, as fill() does.
template <class T>
__global__ void __launch_bounds__(kThreads) fill_values(DeviceFill call) {
  const std::int64_t pair = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t i = 2 * pair;
  if (i >= call.elements) return;
  T* values = static_cast<T*>(call.values);
  const PhiloxWords words = random_words(static_cast<std::uint64_t>(pair), call.seed);
  put(values + i, value(call, words.at[0], words.at[1]));
  if (i + 1 < call.elements) put(values + i + 1, value(call, words.at[2], words.at[3]));
}

template <class T>
void launch_of(const DeviceFill& call, Stream stream) {
  const std::int64_t pairs = divided_up(call.elements, 2);
  launch(fill_values<T>, {.blocks = divided_up(pairs, kThreads), .x = kThreads}, stream, call);
}

}  // namespace

void launch_fill(const DeviceFill& call, Stream stream) {
  switch (call.dtype) {
    case DType::fp32:
      return launch_of<float>(call, stream);
    case DType::bf16:
      return launch_of<Bf16>(call, stream);
    case DType::fp16:
      return launch_of<Fp16>(call, stream);
    case DType::fp8:
      return launch_of<Fp8>(call, stream);
    case DType::int64:
      return launch_of<std::int64_t>(call, stream);
    case DType::boolean:
    case DType::uint8:
      return launch_of<Mask>(call, stream);
    case DType::fp4:
    case DType::fp64:
    case DType::int32:
    case DType::int8:
      return;  // no kernel has such an input
  }
}

}  // namespace memest::kernels
