// The device memory below the caching allocator: where segments come from and go back to. Whoever
// wants to see or to place them derives from DeviceMemory; a prediction uses PredictedDevice.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "memest/units/quantity.hpp"

namespace memest {

/// A device address in bytes.
using Address = std::int64_t;

/// A stretch of device addresses, and the stream whose allocations caused it.
struct DeviceRange {
  Address address = 0;
  Bytes size;
  int stream = 0;

  bool operator==(const DeviceRange&) const = default;
};

/// The driver, as the allocator calls it. Sizes are positive multiples of 512 B.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  DeviceMemory(DeviceMemory&&) = delete;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  virtual ~DeviceMemory() = default;

  /// The memory of the whole device (cudaDeviceProp::totalGlobalMem): an expandable segment has
  /// addresses for 1 1/8 of it.
  [[nodiscard]] virtual Bytes total() const = 0;

  /// cudaMalloc: the address of a new segment; empty where the device is out of memory.
  virtual std::optional<Address> allocate(Bytes size, int stream) = 0;
  /// cudaFree of a whole segment.
  virtual void release(const DeviceRange& segment) = 0;

  /// cuMemAddressReserve: addresses without memory, for an expandable segment.
  virtual Address reserve_addresses(Bytes size, int stream) = 0;
  virtual void return_addresses(const DeviceRange& space) = 0;
  /// cuMemCreate and cuMemMap: memory behind reserved addresses, all of the range or none (false)
  /// where the device is out of memory.
  virtual bool map(const DeviceRange& range) = 0;
  virtual void unmap(const DeviceRange& range) = 0;
};

/// Addresses handed out first fit, the lowest that are free: requests up to 1 MiB in multiples of
/// 512 B, larger ones in pages of 2 MiB.
class AddressSpace {
 public:
  AddressSpace();
  /// Bytes that a request of `size` takes.
  [[nodiscard]] static Bytes granted(Bytes size);
  Address take(Bytes size);
  void give_back(Address address, Bytes size);

 private:
  std::map<Address, Bytes> free_;  // by address; neighbours are joined
};

/// A device that has `available` of its `total` memory for the allocator (the rest is taken by the
/// context and libraries) and places segments first fit.
class PredictedDevice : public DeviceMemory {
 public:
  PredictedDevice(Bytes total, Bytes available) : total_(total), available_(available) {}
  explicit PredictedDevice(Bytes total) : PredictedDevice(total, total) {}

  [[nodiscard]] Bytes total() const override { return total_; }
  [[nodiscard]] Bytes available() const { return available_; }
  std::optional<Address> allocate(Bytes size, int stream) override;
  void release(const DeviceRange& segment) override;
  Address reserve_addresses(Bytes size, int stream) override;
  void return_addresses(const DeviceRange& space) override;
  bool map(const DeviceRange& range) override;
  void unmap(const DeviceRange& range) override;

 private:
  Bytes total_;
  Bytes available_;
  AddressSpace addresses_;
};

}  // namespace memest
