// The books of device memory: cudaMalloc, the driver's virtual memory, and page-locked host memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "device/address_space.hpp"

namespace memest::record {

/// Thread-safe. Sizes are bytes, devices count from 0.
class Memory {
 public:
  /// What is left of the device's memory behind its context.
  [[nodiscard]] std::size_t free(int device);
  /// The most that was in use at once, without the context.
  [[nodiscard]] std::size_t peak(int device);
  /// How many requests did not fit.
  [[nodiscard]] std::size_t failures() const { return failures_; }

  /// cudaMalloc: up to 1 MiB in units of 512 B, more in pages. 0 where it does not fit.
  Address allocate(int device, std::size_t size);
  /// cudaFree; false where nothing begins there.
  bool release(Address start);

  // cuMemAddressReserve, cuMemCreate, cuMemMap: addresses and physical memory apart, as PyTorch's
  // expandable segments take them.
  Address reserve(int device, std::size_t size, std::size_t alignment);
  void unreserve(Address start);
  /// A physical allocation's number, from 1 on; 0 where it does not fit.
  std::uint64_t create(int device, std::size_t size);
  bool map(Address address, std::size_t size, std::uint64_t physical);
  void unmap(Address address, std::size_t size);
  void release_physical(std::uint64_t physical);
  /// The physical memory behind an address, with one reference more; 0 where there is none.
  std::uint64_t retain_physical(Address address);

  [[nodiscard]] bool is_device(const void* pointer) const {
    return space_.contains(reinterpret_cast<Address>(pointer));
  }
  [[nodiscard]] int device_of(const void* pointer);

  void pin(const void* start, std::size_t size);
  void unpin(const void* start);
  [[nodiscard]] bool is_pinned(const void* pointer);

 private:
  struct Range {
    std::size_t size;
    int device;
  };
  struct Physical {
    std::size_t size;
    int device;
    int references;
  };
  struct Mapping {
    std::size_t size;
    std::uint64_t physical;
  };
  struct Use {
    std::size_t now = 0;
    std::size_t peak = 0;
  };

  [[nodiscard]] std::size_t available(int device);
  [[nodiscard]] bool fits(int device, std::size_t size);
  void use(int device, std::size_t size);
  void drop(std::uint64_t physical);

  std::mutex mutex_;
  std::atomic<std::size_t> failures_{0};
  AddressSpace space_;
  std::map<int, Use> used_;
  std::map<Address, Range> ranges_;
  std::map<std::uint64_t, Physical> physical_;
  std::map<Address, Mapping> mapped_;
  std::uint64_t next_physical_ = 1;
  std::map<Address, std::size_t> pinned_;
};

/// Never destroyed: PyTorch frees memory while the process exits.
Memory& memory();

/// The device that the calling thread has set.
int& current_device();

}  // namespace memest::record
