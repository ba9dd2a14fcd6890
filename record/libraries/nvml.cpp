// NVML: what programs ask of a device before they use it.

#include <cstdio>
#include <cstring>

#include "abi/calls.hpp"
#include "device/memory.hpp"
#include "device/settings.hpp"
#include "libraries/cudart.hpp"

namespace memest::record {
namespace {

/// nvmlReturn_t.
constexpr Status kInvalidArgument = 2;

/// nvmlMemory_t: bytes.
struct MemoryInfo {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

/// A device's handle is its index, from 1 on.
Handle handle_of(unsigned index) { return reinterpret_cast<Handle>(std::uintptr_t{index} + 1); }
int device_of(Handle handle) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(handle)) - 1;
}

Status by_index(unsigned index, Handle* handle) {
  *handle = handle_of(index);
  return is_device(static_cast<int>(index)) ? kSuccess : kInvalidArgument;
}

Status count(unsigned* devices) {
  *devices = static_cast<unsigned>(device_count());
  return kSuccess;
}

Status say(char* text, unsigned size, const char* words) {
  std::snprintf(text, size, "%s", words);
  return kSuccess;
}

}  // namespace
}  // namespace memest::record

using namespace memest::record;

MEMEST_CALL Status nvmlInit() { return kSuccess; }
MEMEST_CALL Status nvmlInit_v2() { return kSuccess; }
MEMEST_CALL Status nvmlInitWithFlags(unsigned) { return kSuccess; }
MEMEST_CALL Status nvmlShutdown() { return kSuccess; }
MEMEST_CALL const char* nvmlErrorString(Status) { return "error of NVML"; }
MEMEST_CALL Status nvmlSystemGetDriverVersion(char* text, unsigned size) {
  return say(text, size, "580.00");
}
MEMEST_CALL Status nvmlDeviceGetCount(unsigned* devices) { return count(devices); }
MEMEST_CALL Status nvmlDeviceGetCount_v2(unsigned* devices) { return count(devices); }
MEMEST_CALL Status nvmlDeviceGetHandleByIndex(unsigned index, Handle* handle) {
  return by_index(index, handle);
}
MEMEST_CALL Status nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle* handle) {
  return by_index(index, handle);
}
MEMEST_CALL Status nvmlDeviceGetHandleByPciBusId_v2(const char* text, Handle* handle) {
  unsigned bus = 0;
  if (std::sscanf(text, "%*x:%x", &bus) != 1 || bus == 0) return kInvalidArgument;
  return by_index(bus - 1, handle);
}
MEMEST_CALL Status nvmlDeviceGetIndex(Handle handle, unsigned* index) {
  *index = static_cast<unsigned>(device_of(handle));
  return kSuccess;
}
MEMEST_CALL Status nvmlDeviceGetName(Handle, char* text, unsigned size) {
  return say(text, size, settings().name.c_str());
}
/// The last byte of the UUID that cudaGetDeviceProperties tells.
MEMEST_CALL Status nvmlDeviceGetUUID(Handle handle, char* text, unsigned size) {
  std::snprintf(text, size, "GPU-00000000-0000-0000-0000-%012x", device_of(handle) + 1);
  return kSuccess;
}
MEMEST_CALL Status nvmlDeviceGetMemoryInfo(Handle handle, MemoryInfo* info) {
  const std::size_t free = memory().free(device_of(handle));
  *info = {settings().memory, free, settings().memory - free};
  return kSuccess;
}
MEMEST_CALL Status nvmlDeviceGetCudaComputeCapability(Handle, int* major, int* minor) {
  *major = settings().major;
  *minor = settings().minor;
  return kSuccess;
}
MEMEST_CALL Status nvmlDeviceGetComputeRunningProcesses(Handle, unsigned* processes, void*) {
  *processes = 0;
  return kSuccess;
}
MEMEST_CALL Status nvmlDeviceGetComputeRunningProcesses_v3(Handle, unsigned* processes, void*) {
  *processes = 0;
  return kSuccess;
}
