// Device addresses: a range of the process's own, reserved without access, so that whoever touches
// device memory from the host faults at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace memest::record {

using Address = std::uintptr_t;

/// Pages of large allocations, as the driver maps them; bytes.
inline constexpr std::size_t kPage = std::size_t{2} << 20U;
/// What small allocations are rounded to; bytes.
inline constexpr std::size_t kSmallUnit = 512;

constexpr std::size_t rounded_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Hands out addresses first fit, the lowest that are free. One serves all devices.
class AddressSpace {
 public:
  AddressSpace();

  [[nodiscard]] bool contains(Address address) const {
    return address >= base_ && address < base_ + kSize;
  }
  /// 0 where nothing is left.
  Address take(std::size_t size, std::size_t alignment);
  void give_back(Address start, std::size_t size);

 private:
  static constexpr std::size_t kSize = std::size_t{16} << 40U;

  Address base_ = 0;
  std::map<Address, std::size_t> free_;  // by address; neighbours are joined
};

}  // namespace memest::record
