// Memory that CUDA gives and takes back: on the device, pinned on the host, or managed between
// both.
#pragma once

#include <cstddef>
#include <utility>

#include "kernels/harness/check.hpp"
#include "memest/units/quantity.hpp"

namespace memest::kernels {

enum class MemoryKind { device, pinned, managed };

template <MemoryKind kind>
class Memory {
 public:
  Memory() = default;
  explicit Memory(Bytes size) : size_(size) {
    const auto bytes = static_cast<std::size_t>(size.value());
    if constexpr (kind == MemoryKind::device) check(cudaMalloc(&data_, bytes));
    if constexpr (kind == MemoryKind::pinned) check(cudaMallocHost(&data_, bytes));
    if constexpr (kind == MemoryKind::managed) check(cudaMallocManaged(&data_, bytes));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, Bytes(0))) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Memory() {
    if (data_ == nullptr) return;
    if constexpr (kind == MemoryKind::pinned) {
      cudaFreeHost(data_);
    } else {
      cudaFree(data_);
    }
  }

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] Bytes size() const { return size_; }

 private:
  void* data_ = nullptr;
  Bytes size_{0};
};

using DeviceMemory = Memory<MemoryKind::device>;
using PinnedMemory = Memory<MemoryKind::pinned>;
using ManagedMemory = Memory<MemoryKind::managed>;

}  // namespace memest::kernels
