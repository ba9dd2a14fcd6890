// The module libmemest_gpu.so and its one door. A module of its own, so that the tool starts and
// runs where neither CUDA's libraries nor a driver are (docs/decisions/0001).
#pragma once

namespace memest {
class Backend;
}

namespace memest::kernels {

inline constexpr const char* kGpuModule = "libmemest_gpu.so";
inline constexpr const char* kGpuModuleDoor = "memest_open_cuda_backend";
/// Gives a backend to own. Throws EnvironmentError.
using GpuModuleDoor = Backend* (*)();

}  // namespace memest::kernels
