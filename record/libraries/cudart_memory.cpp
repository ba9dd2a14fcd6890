// The CUDA runtime: memory and copies.

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "abi/calls.hpp"
#include "abi/cudart.hpp"
#include "device/contents.hpp"
#include "device/handles.hpp"
#include "device/journal.hpp"
#include "device/memory.hpp"
#include "device/settings.hpp"
#include "device/work.hpp"
#include "libraries/cudart.hpp"

namespace memest::record {
namespace {

const char* path_of(const void* to, const void* from) {
  if (memory().is_device(to)) {
    if (memory().is_device(from)) return "d2d";
    return memory().is_pinned(from) ? "h2d" : "h2d_pageable";
  }
  if (!memory().is_device(from)) return "h2h";
  return memory().is_pinned(to) ? "d2h" : "d2h_pageable";
}

}  // namespace

void tell_copy(void* to, const void* from, std::size_t size, Handle stream) {
  if (work().watches()) work().copy(path_of(to, from), size, stream);
}

}  // namespace memest::record

using namespace memest::record;

MEMEST_CALL Status cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = memory().free(current_device());
  *total = settings().memory;
  return kSuccess;
}
MEMEST_CALL Status cudaMalloc(void** pointer, std::size_t size) {
  *pointer = nullptr;
  if (device_count() == 0) return fail(kNoDevice);
  if (size == 0) return kSuccess;
  note_use();
  *pointer = reinterpret_cast<void*>(memory().allocate(current_device(), size));
  return *pointer != nullptr ? kSuccess : fail(kOutOfMemory);
}
MEMEST_CALL Status cudaFree(void* pointer) {
  const bool known = pointer == nullptr || memory().release(reinterpret_cast<Address>(pointer));
  return known ? kSuccess : fail(kInvalidValue);
}
MEMEST_CALL Status cudaMallocAsync(void** pointer, std::size_t size, Handle) {
  return cudaMalloc(pointer, size);
}
MEMEST_CALL Status cudaFreeAsync(void* pointer, Handle) { return cudaFree(pointer); }
/// Managed memory is the host's until a GPU touches it, which none does.
MEMEST_CALL Status cudaMallocManaged(void** pointer, std::size_t size, unsigned) {
  *pointer = std::calloc(std::max<std::size_t>(size, 1), 1);
  if (*pointer == nullptr) return fail(kOutOfMemory);
  memory().pin(*pointer, size);
  return kSuccess;
}
MEMEST_CALL Status cudaDeviceGetDefaultMemPool(Handle* pool, int) { return make(pool); }
MEMEST_CALL Status cudaMemPoolGetAttribute(Handle, int, void* value) {
  const std::size_t used = settings().memory - memory().free(current_device());
  std::memcpy(value, &used, sizeof used);
  return kSuccess;
}

MEMEST_CALL Status cudaHostAlloc(void** pointer, std::size_t size, unsigned) {
  constexpr std::size_t kHostPage = 4096;
  const std::size_t pages = rounded_up(std::max<std::size_t>(size, 1), kHostPage);
  *pointer = std::aligned_alloc(kHostPage, pages);
  if (*pointer == nullptr) return fail(kOutOfMemory);
  memory().pin(*pointer, size);
  return kSuccess;
}
MEMEST_CALL Status cudaMallocHost(void** pointer, std::size_t size) {
  return cudaHostAlloc(pointer, size, 0);
}
MEMEST_CALL Status cudaFreeHost(void* pointer) {
  memory().unpin(pointer);
  std::free(pointer);
  return kSuccess;
}
MEMEST_CALL Status cudaHostRegister(void* pointer, std::size_t size, unsigned) {
  memory().pin(pointer, size);
  return kSuccess;
}
MEMEST_CALL Status cudaHostUnregister(void* pointer) {
  memory().unpin(pointer);
  return kSuccess;
}
MEMEST_CALL Status cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return kSuccess;
}
MEMEST_CALL Status cudaPointerGetAttributes(PointerAttributes* attributes, const void* pointer) {
  constexpr int kNone = -2;  // cudaInvalidDeviceId
  auto* const address = const_cast<void*>(pointer);
  if (memory().is_device(pointer)) {
    *attributes = {MemoryType::device, memory().device_of(pointer), address, nullptr};
  } else if (memory().is_pinned(pointer)) {
    *attributes = {MemoryType::host, current_device(), address, address};
  } else {
    *attributes = {MemoryType::unregistered, kNone, nullptr, address};
  }
  return kSuccess;
}

MEMEST_CALL Status cudaMemcpy(void* to, const void* from, std::size_t size, int) {
  tell_copy(to, from, size, nullptr);
  if (work().watches()) work().host_waits_for_stream(nullptr);
  contents().copy(to, from, size);
  return kSuccess;
}
MEMEST_CALL Status cudaMemcpyAsync(void* to, const void* from, std::size_t size, int,
                                   Handle stream) {
  tell_copy(to, from, size, stream);
  contents().copy(to, from, size);
  return kSuccess;
}
MEMEST_CALL Status cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t size,
                                       Handle stream) {
  tell_copy(to, from, size, stream);
  contents().copy(to, from, size);
  return kSuccess;
}
MEMEST_CALL Status cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                                     std::size_t from_pitch, std::size_t width, std::size_t height,
                                     int, Handle stream) {
  tell_copy(to, from, width * height, stream);
  for (std::size_t row = 0; row < height; ++row) {
    contents().copy(static_cast<char*>(to) + row * to_pitch,
                    static_cast<const char*>(from) + row * from_pitch, width);
  }
  return kSuccess;
}
MEMEST_CALL Status cudaMemset(void* pointer, int value, std::size_t size) {
  if (memory().is_device(pointer)) {
    contents().forget(pointer, size);
  } else {
    std::memset(pointer, value, size);
  }
  return kSuccess;
}
MEMEST_CALL Status cudaMemsetAsync(void* pointer, int value, std::size_t size, Handle stream) {
  if (work().watches()) work().copy("set", size, stream);
  return cudaMemset(pointer, value, size);
}

/// Variables of device code share a page, which is not counted as allocated.
MEMEST_CALL Status cudaGetSymbolAddress(void** pointer, const void*) {
  static const Address page = memory().reserve(0, kPage, kPage);
  *pointer = reinterpret_cast<void*>(page);
  return kSuccess;
}

MEMEST_CALL Status cudaIpcGetMemHandle(void*, void*) { return fail(kNotSupported); }
MEMEST_CALL Status cudaIpcGetEventHandle(void*, Handle) { return fail(kNotSupported); }
