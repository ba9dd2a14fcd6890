// The driver: devices, contexts, modules, launches. Programs link it, open it by name, or ask the
// runtime for its functions one by one.

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "abi/calls.hpp"
#include "device/handles.hpp"
#include "device/journal.hpp"
#include "device/kernels.hpp"
#include "device/memory.hpp"
#include "device/settings.hpp"
#include "libraries/cudart.hpp"
#include "libraries/occupancy.hpp"

MEMEST_CALL memest::record::Status cudaDeviceGetAttribute(int* value, int attribute, int device);

namespace memest::record {
namespace {

/// The one context of each device, which its framework never looks into.
Handle context_of(int device) {
  constexpr std::uintptr_t kFirst = 0x7000000;
  return reinterpret_cast<Handle>(kFirst + 16 * static_cast<std::uintptr_t>(device));
}

Status not_answered() { return kNotSupported; }

/// A function of the driver that this library exports under that name or a version's; what it lacks
/// is told to the program as not supported, and named in the answer.
void* function_of(const char* name) {
  static constexpr const char* kSuffixes[] = {"", "_v2", "_v3"};
  for (const char* suffix : kSuffixes) {
    if (void* function = dlsym(RTLD_DEFAULT, (std::string(name) + suffix).c_str())) return function;
  }
  return nullptr;
}

Status make_kernel(Handle* kernel, const char* name) {
  make(kernel);
  name_kernel(*kernel, name);
  return kSuccess;
}

/// CUlaunchConfig, as far as it is read.
struct DriverLaunchConfig {
  Dim3 grid;
  Dim3 block;
  unsigned shared_bytes;
  Handle stream;
};

/// cudaDriverEntryPointQueryResult, CUdriverProcAddressQueryResult.
enum QueryResult : int { found = 0, symbol_not_found = 1 };

Status entry_point(const char* name, void** function, int* result) {
  *function = function_of(name);
  if (result != nullptr) *result = *function != nullptr ? found : symbol_not_found;
  if (*function != nullptr) return kSuccess;
  note_unanswered(name);
  *function = reinterpret_cast<void*>(&not_answered);
  return kSuccess;
}

}  // namespace
}  // namespace memest::record

using namespace memest::record;

MEMEST_CALL Status cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                                    unsigned long long, int* result) {
  return entry_point(name, function, result);
}
MEMEST_CALL Status cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long,
                                           int* result) {
  return entry_point(name, function, result);
}
MEMEST_CALL Status cuGetProcAddress_v2(const char* name, void** function, int, std::uint64_t,
                                       int* result) {
  return entry_point(name, function, result);
}

MEMEST_CALL Status cuInit(unsigned) { return device_count() > 0 ? kSuccess : kNoDevice; }
MEMEST_CALL Status cuDeviceGetCount(int* count) {
  *count = device_count();
  return kSuccess;
}
MEMEST_CALL Status cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return is_device(ordinal) ? kSuccess : kInvalidDevice;
}
MEMEST_CALL Status cuDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<std::size_t>(size), "%s", settings().name.c_str());
  return kSuccess;
}
MEMEST_CALL Status cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = settings().memory;
  return kSuccess;
}
MEMEST_CALL Status cuDeviceGetAttribute(int* value, int attribute, int device) {
  return cudaDeviceGetAttribute(value, attribute, device);
}
MEMEST_CALL Status cuDeviceGetUuid(char* uuid, int device) {
  constexpr std::size_t kSize = 16;
  std::memset(uuid, 0, kSize);
  uuid[kSize - 1] = static_cast<char>(device + 1);
  return kSuccess;
}
MEMEST_CALL Status cuDeviceGetUuid_v2(char* uuid, int device) {
  return cuDeviceGetUuid(uuid, device);
}
MEMEST_CALL Status cuDeviceComputeCapability(int* major, int* minor, int) {
  *major = settings().major;
  *minor = settings().minor;
  return kSuccess;
}

MEMEST_CALL Status cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return kSuccess;
}
MEMEST_CALL Status cuDevicePrimaryCtxRetain(Handle* context, int device) {
  *context = context_of(device);
  return kSuccess;
}
MEMEST_CALL Status cuCtxGetCurrent(Handle* context) {
  *context = context_of(current_device());
  return kSuccess;
}
MEMEST_CALL Status cuCtxPopCurrent_v2(Handle* context) {
  if (context != nullptr) *context = context_of(current_device());
  return kSuccess;
}
MEMEST_CALL Status cuCtxGetDevice(int* device) {
  *device = current_device();
  return kSuccess;
}
/// The heap and the buffer of printf: what a driver starts with.
MEMEST_CALL Status cuCtxGetLimit(std::size_t* value, int limit) {
  constexpr int kPrintf = 1;
  constexpr int kHeap = 2;
  constexpr std::size_t kMiB = std::size_t{1} << 20U;
  *value = limit == kHeap ? 8 * kMiB : limit == kPrintf ? 7 * kMiB : 1024;
  return kSuccess;
}
MEMEST_CALL Status cuGetErrorString(Status error, const char** text) {
  *text = error == kSuccess        ? "no error"
          : error == kOutOfMemory  ? "out of memory"
          : error == kNotSupported ? "operation not supported by memest record"
                                   : "error of the driver";
  return kSuccess;
}
MEMEST_CALL Status cuGetErrorName(Status error, const char** text) {
  *text = error == kSuccess ? "CUDA_SUCCESS" : "CUDA_ERROR";
  return kSuccess;
}

// Kernels that are compiled while the program runs (NVRTC, Triton): no binary is looked into.
MEMEST_CALL Status cuModuleLoadData(Handle* module, const void*) { return make(module); }
MEMEST_CALL Status cuModuleLoadDataEx(Handle* module, const void*, unsigned, int*, void**) {
  return make(module);
}
MEMEST_CALL Status cuModuleLoad(Handle* module, const char*) { return make(module); }
MEMEST_CALL Status cuLibraryLoadData(Handle* library, const void*, int*, void**, unsigned, int*,
                                     void**, unsigned) {
  return make(library);
}
MEMEST_CALL Status cuLibraryGetKernel(Handle* kernel, Handle, const char* name) {
  return make_kernel(kernel, name);
}
MEMEST_CALL Status cuLibraryGetModule(Handle* module, Handle) { return make(module); }
MEMEST_CALL Status cuKernelGetFunction(Handle* function, Handle kernel) {
  *function = kernel;
  return kSuccess;
}
MEMEST_CALL Status cuModuleGetFunction(Handle* function, Handle, const char* name) {
  return make_kernel(function, name);
}
MEMEST_CALL Status cuFuncGetAttribute(int* value, int attribute, Handle) {
  constexpr int kMostThreads = 0;
  constexpr int kRegisters = 4;
  constexpr int kMostDynamicShared = 8;
  *value = attribute == kMostThreads         ? 1024
           : attribute == kRegisters         ? 32
           : attribute == kMostDynamicShared ? 48 * 1024
                                             : 0;  // no spilled registers, no static shared memory
  return kSuccess;
}
MEMEST_CALL Status cuKernelGetAttribute(int* value, int attribute, Handle kernel, int) {
  return cuFuncGetAttribute(value, attribute, kernel);
}
MEMEST_CALL Status cuLaunchKernel(Handle function, unsigned x, unsigned y, unsigned z,
                                  unsigned threads_x, unsigned threads_y, unsigned threads_z,
                                  unsigned, Handle stream, void** arguments, void**) {
  launch({function, {x, y, z}, {threads_x, threads_y, threads_z}, stream}, arguments);
  return kSuccess;
}
MEMEST_CALL Status cuLaunchKernelEx(const DriverLaunchConfig* configuration, Handle function,
                                    void** arguments, void**) {
  const DriverLaunchConfig& call = *configuration;
  launch({function, call.grid, call.block, call.stream}, arguments);
  return kSuccess;
}
MEMEST_CALL Status cuLaunchCooperativeKernel(Handle function, unsigned x, unsigned y, unsigned z,
                                             unsigned threads_x, unsigned threads_y,
                                             unsigned threads_z, unsigned, Handle stream,
                                             void** arguments) {
  launch({function, {x, y, z}, {threads_x, threads_y, threads_z}, stream}, arguments);
  return kSuccess;
}
MEMEST_CALL Status cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Handle, int threads,
                                                               std::size_t shared_bytes) {
  *blocks = resident_blocks(threads, shared_bytes);
  return kSuccess;
}
MEMEST_CALL Status cuOccupancyMaxActiveClusters(int* clusters, Handle, const void* configuration) {
  unsigned grid = 0;  // CUlaunchConfig::gridDimX
  std::memcpy(&grid, configuration, sizeof grid);
  *clusters = settings().sms / static_cast<int>(std::max(1U, grid));
  return kSuccess;
}
