// The driver: memory. PyTorch's expandable segments take addresses and physical memory apart.

#include <cstring>

#include "abi/calls.hpp"
#include "device/contents.hpp"
#include "device/memory.hpp"
#include "device/settings.hpp"
#include "libraries/cudart.hpp"

MEMEST_CALL memest::record::Status cudaMalloc(void** pointer, std::size_t size);
MEMEST_CALL memest::record::Status cudaFree(void* pointer);
MEMEST_CALL memest::record::Status cudaMemcpy(void* to, const void* from, std::size_t size,
                                              int kind);
MEMEST_CALL memest::record::Status cudaMemcpyAsync(void* to, const void* from, std::size_t size,
                                                   int kind, memest::record::Handle stream);

namespace memest::record {
namespace {

/// CUmemAllocationProp, as far as it is read.
struct AllocationProperties {
  int type;
  int handle_types;
  int location_type;
  int device;
};

constexpr int kAnyDirection = 4;  // cudaMemcpyDefault

void* pointer_to(Address address) { return reinterpret_cast<void*>(address); }

}  // namespace
}  // namespace memest::record

using namespace memest::record;

MEMEST_CALL Status cuMemAlloc_v2(Address* pointer, std::size_t size) {
  void* start = nullptr;
  const Status status = cudaMalloc(&start, size);
  *pointer = reinterpret_cast<Address>(start);
  return status;
}
MEMEST_CALL Status cuMemFree_v2(Address pointer) { return cudaFree(pointer_to(pointer)); }
MEMEST_CALL Status cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = memory().free(current_device());
  *total = settings().memory;
  return kSuccess;
}

MEMEST_CALL Status cuMemGetAllocationGranularity(std::size_t* granularity, const void*, int) {
  *granularity = kPage;
  return kSuccess;
}
MEMEST_CALL Status cuMemAddressReserve(Address* pointer, std::size_t size, std::size_t alignment,
                                       Address, unsigned long long) {
  *pointer = memory().reserve(current_device(), size, alignment);
  return *pointer != 0 ? kSuccess : kOutOfMemory;
}
MEMEST_CALL Status cuMemAddressFree(Address pointer, std::size_t) {
  memory().unreserve(pointer);
  return kSuccess;
}
MEMEST_CALL Status cuMemCreate(std::uint64_t* physical, std::size_t size,
                               const AllocationProperties* properties, unsigned long long) {
  *physical = memory().create(properties->device, size);
  return *physical != 0 ? kSuccess : kOutOfMemory;
}
MEMEST_CALL Status cuMemMap(Address pointer, std::size_t size, std::size_t, std::uint64_t physical,
                            unsigned long long) {
  return memory().map(pointer, size, physical) ? kSuccess : kInvalidValue;
}
MEMEST_CALL Status cuMemUnmap(Address pointer, std::size_t size) {
  memory().unmap(pointer, size);
  return kSuccess;
}
MEMEST_CALL Status cuMemRelease(std::uint64_t physical) {
  memory().release_physical(physical);
  return kSuccess;
}
MEMEST_CALL Status cuMemSetAccess(Address, std::size_t, const void*, std::size_t) {
  return kSuccess;
}
MEMEST_CALL Status cuMemRetainAllocationHandle(std::uint64_t* physical, void* pointer) {
  *physical = memory().retain_physical(reinterpret_cast<Address>(pointer));
  return *physical != 0 ? kSuccess : kInvalidValue;
}
MEMEST_CALL Status cuMemExportToShareableHandle(void*, std::uint64_t, int, unsigned long long) {
  return kNotSupported;
}
MEMEST_CALL Status cuMemImportFromShareableHandle(std::uint64_t*, void*, int) {
  return kNotSupported;
}

MEMEST_CALL Status cuPointerGetAttribute(void* data, int attribute, Address pointer) {
  constexpr int kMemoryType = 2;
  constexpr int kDevicePointer = 3;
  constexpr int kDeviceOrdinal = 9;
  constexpr unsigned kTypeDevice = 2;
  const bool on_device = memory().is_device(pointer_to(pointer));
  if (attribute == kDeviceOrdinal) {
    const int device = memory().device_of(pointer_to(pointer));
    std::memcpy(data, &device, sizeof device);
    return kSuccess;
  }
  if (attribute == kDevicePointer) {  // Triton asks whether a kernel may use the address
    if (!on_device && !memory().is_pinned(pointer_to(pointer))) return kInvalidValue;
    std::memcpy(data, &pointer, sizeof pointer);
    return kSuccess;
  }
  if (attribute != kMemoryType || !on_device) return kInvalidValue;
  std::memcpy(data, &kTypeDevice, sizeof kTypeDevice);
  return kSuccess;
}

MEMEST_CALL Status cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t size,
                                        Handle stream) {
  return cudaMemcpyAsync(pointer_to(to), from, size, kAnyDirection, stream);
}
MEMEST_CALL Status cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t size, Handle stream) {
  return cudaMemcpyAsync(to, pointer_to(from), size, kAnyDirection, stream);
}
MEMEST_CALL Status cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t size, Handle stream) {
  return cudaMemcpyAsync(pointer_to(to), pointer_to(from), size, kAnyDirection, stream);
}
MEMEST_CALL Status cuMemcpyHtoD_v2(Address to, const void* from, std::size_t size) {
  return cudaMemcpy(pointer_to(to), from, size, kAnyDirection);
}
MEMEST_CALL Status cuMemcpyDtoH_v2(void* to, Address from, std::size_t size) {
  return cudaMemcpy(to, pointer_to(from), size, kAnyDirection);
}
MEMEST_CALL Status cuMemsetD32Async(Address pointer, unsigned, std::size_t words, Handle) {
  contents().forget(pointer_to(pointer), words * sizeof(unsigned));
  return kSuccess;
}
MEMEST_CALL Status cuMemsetD8Async(Address pointer, unsigned char, std::size_t bytes, Handle) {
  contents().forget(pointer_to(pointer), bytes);
  return kSuccess;
}
