// The CUDA runtime: kernels, from their registration to their launch.

#include <algorithm>
#include <vector>

#include "abi/calls.hpp"
#include "abi/cudart.hpp"
#include "device/kernels.hpp"
#include "device/settings.hpp"
#include "libraries/cudart.hpp"
#include "libraries/occupancy.hpp"

namespace memest::record {
namespace {

struct CallConfiguration {
  Dim3 grid;
  Dim3 block;
  std::size_t shared_bytes;
  Handle stream;
};
thread_local std::vector<CallConfiguration> call_configurations;

Status launched(const Launch& call, void** arguments) {
  launch(call, arguments);
  return kSuccess;
}

/// The architecture of the binary that the device runs: PyTorch's kernels are built for some, and a
/// device takes the newest of its own major version.
int binary_architecture() {
  constexpr int kShipped[] = {50, 60, 70, 75, 80, 86, 90, 100, 120};
  const Settings& gpu = settings();
  int best = gpu.major * 10 + gpu.minor;
  for (const int shipped : kShipped) {
    if (shipped / 10 == gpu.major && shipped % 10 <= gpu.minor) best = shipped;
  }
  return best;
}

}  // namespace

int resident_blocks(int threads, std::size_t shared_bytes) {
  constexpr std::size_t kReserved = 1024;  // bytes of shared memory that a block takes besides
  const SmLimits& sm = limits_of(settings().major, settings().minor);
  int blocks = std::min(sm.blocks, sm.threads / std::max(threads, 1));
  if (shared_bytes > 0) {
    blocks = std::min(blocks, static_cast<int>(sm.shared / (shared_bytes + kReserved)));
  }
  return std::max(blocks, 1);
}

}  // namespace memest::record

using namespace memest::record;

MEMEST_CALL void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
MEMEST_CALL void __cudaRegisterFatBinaryEnd(void**) {}
MEMEST_CALL void __cudaUnregisterFatBinary(void**) {}
MEMEST_CALL char __cudaInitModule(void**) { return 1; }
MEMEST_CALL void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
MEMEST_CALL void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, std::size_t, int,
                                          int) {}
MEMEST_CALL void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int,
                                        void*, void*, void*, void*, int*) {
  register_kernel(stub, name);
}

MEMEST_CALL unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, std::size_t shared_bytes,
                                                 Handle stream) {
  call_configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}
MEMEST_CALL Status __cudaPopCallConfiguration(Dim3* grid, Dim3* block, std::size_t* shared_bytes,
                                              Handle* stream) {
  if (call_configurations.empty()) return fail(kMissingConfiguration);
  const CallConfiguration call = call_configurations.back();
  call_configurations.pop_back();
  *grid = call.grid;
  *block = call.block;
  *shared_bytes = call.shared_bytes;
  *stream = call.stream;
  return kSuccess;
}
MEMEST_CALL Status __cudaGetKernel(Handle* kernel, const void* stub) {
  *kernel = const_cast<void*>(stub);
  return kSuccess;
}
MEMEST_CALL Status cudaGetKernel(Handle* kernel, const void* stub) {
  return __cudaGetKernel(kernel, stub);
}
MEMEST_CALL Status cudaGetFuncBySymbol(Handle* kernel, const void* stub) {
  return __cudaGetKernel(kernel, stub);
}
MEMEST_CALL Status __cudaLaunchKernel(Handle kernel, Dim3 grid, Dim3 block, void** arguments,
                                      std::size_t, Handle stream) {
  return launched({kernel, grid, block, stream}, arguments);
}
MEMEST_CALL Status cudaLaunchKernel(const void* kernel, Dim3 grid, Dim3 block, void** arguments,
                                    std::size_t, Handle stream) {
  return launched({kernel, grid, block, stream}, arguments);
}
MEMEST_CALL Status cudaLaunchCooperativeKernel(const void* kernel, Dim3 grid, Dim3 block,
                                               void** arguments, std::size_t, Handle stream) {
  return launched({kernel, grid, block, stream}, arguments);
}
MEMEST_CALL Status cudaLaunchKernelExC(const LaunchConfig* configuration, const void* kernel,
                                       void** arguments) {
  const LaunchConfig& call = *configuration;
  return launched({kernel, call.grid, call.block, call.stream}, arguments);
}

MEMEST_CALL Status cudaFuncGetAttributes(FunctionAttributes* attributes, const void*) {
  constexpr int kRegisters = 32;  // of a thread; plausible, no binary is read
  *attributes = {};
  attributes->max_threads_per_block = 1024;
  attributes->registers = kRegisters;
  attributes->ptx_version = attributes->binary_version = binary_architecture();
  attributes->max_dynamic_shared_bytes = 48 * 1024;
  return kSuccess;
}
MEMEST_CALL Status cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*,
                                                                          int threads,
                                                                          std::size_t shared_bytes,
                                                                          unsigned) {
  *blocks = resident_blocks(threads, shared_bytes);
  return kSuccess;
}
MEMEST_CALL Status cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*,
                                                                 int threads,
                                                                 std::size_t shared_bytes) {
  *blocks = resident_blocks(threads, shared_bytes);
  return kSuccess;
}
MEMEST_CALL Status cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void*,
                                                             int blocks, int) {
  *bytes = limits_of(settings().major, settings().minor).shared /
           static_cast<std::size_t>(std::max(blocks, 1));
  return kSuccess;
}
