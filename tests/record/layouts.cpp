// The null device's own declarations lie as CUDA's.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <type_traits>

#include "abi/cudart.hpp"
#include "abi/device_properties.hpp"

namespace memest::record {

#if CUDART_VERSION >= 13000
using Properties = DeviceProperties13;
#else
using Properties = DeviceProperties12;
#endif

#define MEMEST_SAME(field) \
  static_assert(offsetof(Properties, field) == offsetof(cudaDeviceProp, field), #field)
static_assert(sizeof(Properties) == sizeof(cudaDeviceProp));
MEMEST_SAME(totalGlobalMem);
MEMEST_SAME(maxGridSize);
MEMEST_SAME(totalConstMem);
MEMEST_SAME(multiProcessorCount);
MEMEST_SAME(canMapHostMemory);
MEMEST_SAME(surfaceAlignment);
MEMEST_SAME(l2CacheSize);
MEMEST_SAME(sharedMemPerMultiprocessor);
MEMEST_SAME(managedMemory);
MEMEST_SAME(cooperativeLaunch);
MEMEST_SAME(sharedMemPerBlockOptin);
MEMEST_SAME(maxBlocksPerMultiProcessor);
MEMEST_SAME(reservedSharedMemPerBlock);
MEMEST_SAME(memoryPoolsSupported);
MEMEST_SAME(ipcEventSupported);
MEMEST_SAME(clusterLaunch);

static_assert(sizeof(LaunchConfig) == sizeof(cudaLaunchConfig_t));
static_assert(sizeof(FunctionAttributes) == sizeof(cudaFuncAttributes));
static_assert(offsetof(PointerAttributes, host_pointer) ==
              offsetof(cudaPointerAttributes, hostPointer));

}  // namespace memest::record
