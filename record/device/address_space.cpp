#include "device/address_space.hpp"

#include <sys/mman.h>

#include <iterator>

#include "device/journal.hpp"

namespace memest::record {

AddressSpace::AddressSpace() {
  void* range =
      mmap(nullptr, kSize + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    give_up(
        "no 16 TiB of addresses can be reserved for the device: is there a limit on virtual "
        "memory (ulimit -v)?");
  }
  base_ = rounded_up(reinterpret_cast<Address>(range), kPage);
  free_[base_] = kSize;
}

Address AddressSpace::take(std::size_t size, std::size_t alignment) {
  for (auto hole = free_.begin(); hole != free_.end(); ++hole) {
    const Address begin = hole->first;
    const Address end = begin + hole->second;
    const Address start = rounded_up(begin, alignment);
    if (start + size > end || start + size < start) continue;
    free_.erase(hole);
    if (start > begin) free_[begin] = start - begin;
    if (end > start + size) free_[start + size] = end - start - size;
    return start;
  }
  return 0;
}

void AddressSpace::give_back(Address start, std::size_t size) {
  auto next = free_.lower_bound(start);
  if (next != free_.end() && next->first == start + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == start) {
      before->second += size;
      return;
    }
  }
  free_[start] = size;
}

}  // namespace memest::record
