#include "device/memory.hpp"

#include <algorithm>
#include <iterator>

#include "device/settings.hpp"

namespace memest::record {
namespace {

constexpr std::size_t kLargestSmall = std::size_t{1} << 20U;

using Lock = std::lock_guard<std::mutex>;

}  // namespace

std::size_t Memory::available(int device) {
  const std::size_t taken = settings().context + used_[device].now;
  return taken >= settings().memory ? 0 : settings().memory - taken;
}

bool Memory::fits(int device, std::size_t size) {
  const bool fits = size <= available(device);
  if (!fits) ++failures_;
  return fits;
}

void Memory::use(int device, std::size_t size) {
  Use& use = used_[device];
  use.now += size;
  use.peak = std::max(use.peak, use.now);
}

std::size_t Memory::free(int device) {
  const Lock lock(mutex_);
  return available(device);
}

std::size_t Memory::peak(int device) {
  const Lock lock(mutex_);
  return used_[device].peak;
}

Address Memory::allocate(int device, std::size_t size) {
  const Lock lock(mutex_);
  const std::size_t unit = size <= kLargestSmall ? kSmallUnit : kPage;
  const std::size_t granted = rounded_up(std::max<std::size_t>(size, 1), unit);
  if (!fits(device, granted)) return 0;
  const Address start = space_.take(granted, unit);
  if (start == 0) return 0;
  use(device, granted);
  ranges_[start] = {granted, device};
  return start;
}

bool Memory::release(Address start) {
  const Lock lock(mutex_);
  const auto range = ranges_.find(start);
  if (range == ranges_.end()) return false;
  used_[range->second.device].now -= range->second.size;
  space_.give_back(start, range->second.size);
  ranges_.erase(range);
  return true;
}

Address Memory::reserve(int device, std::size_t size, std::size_t alignment) {
  const Lock lock(mutex_);
  const Address start = space_.take(size, std::max(alignment, kPage));
  if (start != 0) ranges_[start] = {size, device};
  return start;
}

void Memory::unreserve(Address start) {
  const Lock lock(mutex_);
  const auto range = ranges_.find(start);
  if (range == ranges_.end()) return;
  space_.give_back(start, range->second.size);
  ranges_.erase(range);
}

std::uint64_t Memory::create(int device, std::size_t size) {
  const Lock lock(mutex_);
  if (!fits(device, size)) return 0;
  use(device, size);
  physical_[next_physical_] = {size, device, 1};
  return next_physical_++;
}

bool Memory::map(Address address, std::size_t size, std::uint64_t physical) {
  const Lock lock(mutex_);
  const auto found = physical_.find(physical);
  if (found == physical_.end()) return false;
  mapped_[address] = {size, physical};
  ++found->second.references;
  return true;
}

void Memory::unmap(Address address, std::size_t size) {
  const Lock lock(mutex_);
  auto mapping = mapped_.lower_bound(address);
  while (mapping != mapped_.end() && mapping->first < address + size) {
    drop(mapping->second.physical);
    mapping = mapped_.erase(mapping);
  }
}

void Memory::release_physical(std::uint64_t physical) {
  const Lock lock(mutex_);
  drop(physical);
}

std::uint64_t Memory::retain_physical(Address address) {
  const Lock lock(mutex_);
  const auto after = mapped_.upper_bound(address);
  if (after == mapped_.begin()) return 0;
  const std::uint64_t physical = std::prev(after)->second.physical;
  ++physical_.at(physical).references;
  return physical;
}

void Memory::drop(std::uint64_t physical) {
  const auto found = physical_.find(physical);
  if (found == physical_.end() || --found->second.references > 0) return;
  used_[found->second.device].now -= found->second.size;
  physical_.erase(found);
}

int Memory::device_of(const void* pointer) {
  const Lock lock(mutex_);
  const auto after = ranges_.upper_bound(reinterpret_cast<Address>(pointer));
  return after == ranges_.begin() ? 0 : std::prev(after)->second.device;
}

void Memory::pin(const void* start, std::size_t size) {
  const Lock lock(mutex_);
  pinned_[reinterpret_cast<Address>(start)] = size;
}

void Memory::unpin(const void* start) {
  const Lock lock(mutex_);
  pinned_.erase(reinterpret_cast<Address>(start));
}

bool Memory::is_pinned(const void* pointer) {
  const Lock lock(mutex_);
  const auto address = reinterpret_cast<Address>(pointer);
  const auto after = pinned_.upper_bound(address);
  if (after == pinned_.begin()) return false;
  const auto& [start, size] = *std::prev(after);
  return address < start + size;
}

Memory& memory() {
  static auto* const books = new Memory;
  return *books;
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

}  // namespace memest::record
