#include "memest/memory/device_memory.hpp"

#include <iterator>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

// Sizes that cudaMalloc grants: 512 B for small requests, pages of 2 MiB for the others, as the
// recorded allocator traces show (tests/truth/traces).
constexpr Bytes kSmallest(512);
constexpr Bytes kSmallRequest(kMiB);
constexpr Bytes kPage(2 * kMiB);

// Only differences matter; where CUDA's own addresses tend to begin.
constexpr Address kFirstAddress = Address{0x7f00} << 32U;
constexpr Bytes kSpan(Address{1} << 46U);

constexpr std::int64_t round_up_to_page(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

Bytes granularity(Bytes size) { return size <= kSmallRequest ? kSmallest : kPage; }

}  // namespace

AddressSpace::AddressSpace() : free_{{kFirstAddress, kSpan}} {}

Bytes AddressSpace::granted(Bytes size) {
  return Bytes(round_up_to_page(size.value(), granularity(size).value()));
}

Address AddressSpace::take(Bytes size) {
  // First fit, lowest address: where a segment lies decides ties of best fit, since the allocator
  // takes the lowest address among blocks of one size.
  const std::int64_t alignment = granularity(size).value();
  const std::int64_t length = granted(size).value();
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const Address begin = range->first;
    const Address end = begin + range->second.value();
    const Address start = round_up_to_page(begin, alignment);
    if (start + length > end) continue;
    free_.erase(range);
    // Alignment may leave addresses in front, and the range behind is what the request left over.
    if (start > begin) free_.emplace(begin, start - begin);
    if (end > start + length) free_.emplace(start + length, end - start - length);
    return start;
  }
  throw OverflowError("the device's address space is exhausted");
}

void AddressSpace::give_back(Address address, Bytes size) {
  Address end = address + granted(size).value();
  const auto next = free_.lower_bound(address);
  if (next != free_.end() && next->first == end) {
    end += next->second.value();
    free_.erase(next);
  }
  const auto after = free_.lower_bound(address);
  if (after != free_.begin()) {
    auto& [start, length] = *std::prev(after);
    expect(start + length.value() <= address, "addresses given back twice");
    if (start + length.value() == address) {
      length = Bytes(end - start);
      return;
    }
  }
  free_.emplace(address, end - address);
}

std::optional<Address> PredictedDevice::allocate(Bytes size, int) {
  const Bytes granted = AddressSpace::granted(size);
  if (granted > available_) return {};
  available_ -= granted;
  return addresses_.take(size);
}

void PredictedDevice::release(const DeviceRange& segment) {
  available_ += AddressSpace::granted(segment.size);
  addresses_.give_back(segment.address, segment.size);
}

// cuMemAddressReserve takes addresses but no memory: `available_` changes with map and unmap.
Address PredictedDevice::reserve_addresses(Bytes size, int) { return addresses_.take(size); }

void PredictedDevice::return_addresses(const DeviceRange& space) {
  addresses_.give_back(space.address, space.size);
}

bool PredictedDevice::map(const DeviceRange& range) {
  if (range.size > available_) return false;
  available_ -= range.size;
  return true;
}

void PredictedDevice::unmap(const DeviceRange& range) { available_ += range.size; }

}  // namespace memest
