#include "kernels/device/launch.cuh"
#include "kernels/launch.hpp"

namespace memest::kernels {
namespace {

__global__ void empty() {}

__device__ std::int64_t now_in_nanoseconds() {
  std::int64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void spin(std::int64_t nanoseconds) {
  const std::int64_t end = now_in_nanoseconds() + nanoseconds;
  while (now_in_nanoseconds() < end) {
  }
}

}  // namespace

void launch_empty(Stream stream) { launch(empty, {.x = 1}, stream); }

void launch_spin(std::int64_t nanoseconds, Stream stream) {
  launch(spin, {.x = 1}, stream, nanoseconds);
}

}  // namespace memest::kernels
