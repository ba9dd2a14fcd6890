// The CUDA runtime: devices, versions, errors.

#include <array>
#include <cstdio>
#include <cstring>

#include "abi/calls.hpp"
#include "abi/device_properties.hpp"
#include "device/memory.hpp"
#include "device/settings.hpp"
#include "device/streams.hpp"
#include "libraries/cudart.hpp"

namespace memest::record {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr int kWarp = 32;
constexpr int kThreads = 1024;              // of a block
constexpr int kBlockDepth = 64;             // threads of a block along z
constexpr int kGrid = 0x7fffffff;           // blocks along x
constexpr int kGridSide = 65535;            // blocks along y and z
constexpr int kRegisters = 65536;           // of a block, and of an SM
constexpr int kAlignment = 512;             // of textures and surfaces, bytes
constexpr std::size_t kShared = 48 * kKiB;  // of a block that asks for no more
constexpr int kCopyEngines = 3;
constexpr int kBusWidth = 5120;  // bits; nobody's memory depends on it
constexpr int kFirstBus = 1;

/// Programs ask for what decides a kernel's shape; the rest of the fields stays zero.
template <class Properties>
void fill(Properties& p, int device) {
  const Settings& gpu = settings();
  const SmLimits& sm = limits_of(gpu.major, gpu.minor);
  p = {};
  std::snprintf(p.name, sizeof p.name, "%s", gpu.name.c_str());
  p.uuid[sizeof p.uuid - 1] = static_cast<char>(device + 1);
  p.totalGlobalMem = gpu.memory;
  p.sharedMemPerBlock = kShared;
  p.regsPerBlock = p.regsPerMultiprocessor = kRegisters;
  p.warpSize = kWarp;
  p.memPitch = kGrid;
  p.maxThreadsPerBlock = p.maxThreadsDim[0] = p.maxThreadsDim[1] = kThreads;
  p.maxThreadsDim[2] = kBlockDepth;
  p.maxGridSize[0] = kGrid;
  p.maxGridSize[1] = p.maxGridSize[2] = kGridSide;
  p.totalConstMem = 64 * kKiB;
  p.major = gpu.major;
  p.minor = gpu.minor;
  p.textureAlignment = p.surfaceAlignment = kAlignment;
  p.texturePitchAlignment = kWarp;
  p.multiProcessorCount = gpu.sms;
  p.canMapHostMemory = p.concurrentKernels = p.unifiedAddressing = 1;
  p.streamPrioritiesSupported = p.ECCEnabled = p.managedMemory = 1;
  p.concurrentManagedAccess = p.computePreemptionSupported = p.cooperativeLaunch = 1;
  p.globalL1CacheSupported = p.localL1CacheSupported = p.ipcEventSupported = 1;
  p.hostRegisterSupported = p.canUseHostPointerForRegisteredMem = p.memoryPoolsSupported = 1;
  p.clusterLaunch = gpu.major >= 9 ? 1 : 0;
  p.pciBusID = kFirstBus + device;
  p.asyncEngineCount = kCopyEngines;
  p.memoryBusWidth = kBusWidth;
  p.l2CacheSize = static_cast<int>(gpu.l2);
  p.persistingL2CacheMaxSize = static_cast<int>(gpu.l2 / 8 * 5);
  p.accessPolicyMaxWindowSize = static_cast<int>(128 * kKiB * kKiB);
  p.maxThreadsPerMultiProcessor = sm.threads;
  p.maxBlocksPerMultiProcessor = sm.blocks;
  p.sharedMemPerMultiprocessor = sm.shared;
  p.sharedMemPerBlockOptin = sm.shared_optin;
  p.reservedSharedMemPerBlock = gpu.major >= 8 ? kKiB : 0;
}

template <class Properties>
Status properties(Properties* p, int device) {
  if (!is_device(device)) return fail(kInvalidDevice);
  fill(*p, device);
  return kSuccess;
}

/// An attribute by cudaDeviceAttr's number, which are CUdevice_attribute's up to 150.
struct Attribute {
  int number;
  int (*value)(const DeviceProperties13& p);
};

constexpr int kClock = 1980000;        // kHz
constexpr int kMemoryClock = 2619000;  // kHz

#define MEMEST_FIELD(field) [](const DeviceProperties13& p) { return static_cast<int>(p.field); }
#define MEMEST_VALUE(constant) [](const DeviceProperties13&) { return constant; }
constexpr auto kAttributes = std::to_array<Attribute>({
    {1, MEMEST_FIELD(maxThreadsPerBlock)},
    {2, MEMEST_FIELD(maxThreadsDim[0])},
    {3, MEMEST_FIELD(maxThreadsDim[1])},
    {4, MEMEST_FIELD(maxThreadsDim[2])},
    {5, MEMEST_FIELD(maxGridSize[0])},
    {6, MEMEST_FIELD(maxGridSize[1])},
    {7, MEMEST_FIELD(maxGridSize[2])},
    {8, MEMEST_FIELD(sharedMemPerBlock)},
    {9, MEMEST_FIELD(totalConstMem)},
    {10, MEMEST_FIELD(warpSize)},
    {11, MEMEST_FIELD(memPitch)},
    {12, MEMEST_FIELD(regsPerBlock)},
    {13, MEMEST_VALUE(kClock)},
    {14, MEMEST_FIELD(textureAlignment)},
    {15, MEMEST_VALUE(1)},  // GpuOverlap
    {16, MEMEST_FIELD(multiProcessorCount)},
    {19, MEMEST_FIELD(canMapHostMemory)},
    {30, MEMEST_FIELD(surfaceAlignment)},
    {31, MEMEST_FIELD(concurrentKernels)},
    {32, MEMEST_FIELD(ECCEnabled)},
    {33, MEMEST_FIELD(pciBusID)},
    {36, MEMEST_VALUE(kMemoryClock)},
    {37, MEMEST_FIELD(memoryBusWidth)},
    {38, MEMEST_FIELD(l2CacheSize)},
    {39, MEMEST_FIELD(maxThreadsPerMultiProcessor)},
    {40, MEMEST_FIELD(asyncEngineCount)},
    {41, MEMEST_FIELD(unifiedAddressing)},
    {51, MEMEST_FIELD(texturePitchAlignment)},
    {75, MEMEST_FIELD(major)},
    {76, MEMEST_FIELD(minor)},
    {78, MEMEST_FIELD(streamPrioritiesSupported)},
    {79, MEMEST_FIELD(globalL1CacheSupported)},
    {80, MEMEST_FIELD(localL1CacheSupported)},
    {81, MEMEST_FIELD(sharedMemPerMultiprocessor)},
    {82, MEMEST_FIELD(regsPerMultiprocessor)},
    {83, MEMEST_FIELD(managedMemory)},
    {89, MEMEST_FIELD(concurrentManagedAccess)},
    {90, MEMEST_FIELD(computePreemptionSupported)},
    {91, MEMEST_FIELD(canUseHostPointerForRegisteredMem)},
    {95, MEMEST_FIELD(cooperativeLaunch)},
    {97, MEMEST_FIELD(sharedMemPerBlockOptin)},
    {99, MEMEST_FIELD(hostRegisterSupported)},
    {102, MEMEST_VALUE(1)},  // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED of the driver
    {103, MEMEST_VALUE(1)},  // HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED of the driver
    {106, MEMEST_FIELD(maxBlocksPerMultiProcessor)},
    {108, MEMEST_FIELD(persistingL2CacheMaxSize)},
    {109, MEMEST_FIELD(accessPolicyMaxWindowSize)},
    {111, MEMEST_FIELD(reservedSharedMemPerBlock)},
    {115, MEMEST_FIELD(memoryPoolsSupported)},
    {120, MEMEST_FIELD(clusterLaunch)},
    {125, MEMEST_FIELD(ipcEventSupported)},
});
#undef MEMEST_FIELD
#undef MEMEST_VALUE

thread_local Status last_error = kSuccess;

struct ErrorText {
  Status error;
  const char* name;
  const char* text;
};
constexpr auto kErrors = std::to_array<ErrorText>({
    {kSuccess, "cudaSuccess", "no error"},
    {kInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {kOutOfMemory, "cudaErrorMemoryAllocation", "out of memory"},
    {kNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {kInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {kNotSupported, "cudaErrorNotSupported", "operation not supported by memest record"},
});

const ErrorText& text_of(Status error) {
  static constexpr ErrorText kOther = {-1, "cudaErrorUnknown", "unknown error"};
  for (const ErrorText& row : kErrors) {
    if (row.error == error) return row;
  }
  return kOther;
}

}  // namespace

Status fail(Status error) { return last_error = error; }

bool is_device(int device) { return device >= 0 && device < device_count(); }

int device_count() { return settings().recording ? settings().devices : 0; }

}  // namespace memest::record

using namespace memest::record;

MEMEST_CALL Status cudaGetDeviceCount(int* count) {
  *count = device_count();
  return *count > 0 ? kSuccess : fail(kNoDevice);
}
MEMEST_CALL Status cudaGetDevice(int* device) {
  *device = current_device();
  return kSuccess;
}
MEMEST_CALL Status cudaSetDevice(int device) {
  if (!is_device(device)) return fail(kInvalidDevice);
  current_device() = device;
  return kSuccess;
}
MEMEST_CALL Status cudaGetDeviceProperties_v2(DeviceProperties12* p, int device) {
  const Status status = properties(p, device);
  if (status != kSuccess) return status;
  p->clockRate = kClock;
  p->memoryClockRate = kMemoryClock;
  p->deviceOverlap = 1;
  return kSuccess;
}
MEMEST_CALL Status cudaGetDeviceProperties(DeviceProperties13* p, int device) {
  return properties(p, device);
}
MEMEST_CALL Status cudaDeviceGetAttribute(int* value, int attribute, int device) {
  DeviceProperties13 p;
  if (const Status status = properties(&p, device); status != kSuccess) return status;
  *value = 0;
  for (const Attribute& row : kAttributes) {
    if (row.number == attribute) *value = row.value(p);
  }
  return kSuccess;
}
MEMEST_CALL Status cudaDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02x:00.0", device + kFirstBus);
  return kSuccess;
}
MEMEST_CALL Status cudaDeviceGetByPCIBusId(int* device, const char* text) {
  unsigned bus = 0;
  if (std::sscanf(text, "%*x:%x", &bus) != 1) return fail(kInvalidValue);
  *device = static_cast<int>(bus) - kFirstBus;
  return is_device(*device) ? kSuccess : fail(kInvalidDevice);
}
MEMEST_CALL Status cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer ? 1 : 0;
  return kSuccess;
}
MEMEST_CALL Status cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return kSuccess;
}
MEMEST_CALL Status cudaGetLastError() {
  const Status error = last_error;
  last_error = kSuccess;
  return error;
}
MEMEST_CALL Status cudaPeekAtLastError() { return last_error; }
MEMEST_CALL const char* cudaGetErrorString(Status error) { return text_of(error).text; }
MEMEST_CALL const char* cudaGetErrorName(Status error) { return text_of(error).name; }
