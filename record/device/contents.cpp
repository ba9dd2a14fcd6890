#include "device/contents.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "device/journal.hpp"
#include "device/memory.hpp"

namespace memest::record {
namespace {

/// Bytes of the largest copy whose contents are kept.
constexpr std::size_t kLargest = std::size_t{256} << 10U;

using Lock = std::lock_guard<std::mutex>;

thread_local bool last_bool = false;

}  // namespace

void Contents::copy(void* to, const void* from, std::size_t size) {
  if (size == 0) return;
  const bool into_device = memory().is_device(to);
  const bool from_device = memory().is_device(from);
  if (into_device && from_device) {
    if (size > kLargest) return forget(to, size);
    std::vector<char> bytes(size);
    read(bytes.data(), from, size);
    write(to, bytes.data(), size, false);
  } else if (into_device) {
    write(to, from, size, false);
  } else if (from_device) {
    if (!read(to, from, size)) note_read(to, size);
  } else {
    std::memmove(to, from, size);
  }
}

void Contents::write(const void* device, const void* host, std::size_t size, bool is_assumed) {
  const Lock lock(mutex_);
  erase(device, size);
  if (size > kLargest) return;
  const char* bytes = static_cast<const char*>(host);
  pieces_[reinterpret_cast<Address>(device)] = {{bytes, bytes + size}, is_assumed};
  known_ = true;
}

bool Contents::read(void* host, const void* device, std::size_t size) {
  std::memset(host, size == 1 && last_bool ? 1 : 0, size);
  if (!known_) return false;
  const Lock lock(mutex_);
  const auto begin = reinterpret_cast<Address>(device);
  const Address end = begin + size;
  std::size_t known = 0;
  for (auto piece = first_reaching(begin); piece != pieces_.end() && piece->first < end; ++piece) {
    const Address from = std::max(begin, piece->first);
    const Address to = std::min(end, piece->first + piece->second.bytes.size());
    if (from >= to) continue;
    std::memcpy(static_cast<char*>(host) + (from - begin),
                piece->second.bytes.data() + (from - piece->first), to - from);
    if (!piece->second.is_assumed) known += to - from;
  }
  return known == size;
}

void Contents::forget(const void* device, std::size_t size) {
  if (!known_) return;
  const Lock lock(mutex_);
  erase(device, size);
}

void Contents::kernel_ran(bool bool_result) {
  last_bool = bool_result;
  if (!known_) return;
  const Lock lock(mutex_);
  pieces_.clear();
  known_ = false;
}

void Contents::kernel_wrote(const void* device, std::size_t size, bool bool_result) {
  last_bool = bool_result;
  forget(device, size);
}

void Contents::assume(const void* device, const void* bytes, std::size_t size) {
  write(device, bytes, size, true);
}

/// Whole pieces: what overlaps is forgotten.
void Contents::erase(const void* device, std::size_t size) {
  const auto begin = reinterpret_cast<Address>(device);
  const Address end = begin + size;
  auto piece = first_reaching(begin);
  while (piece != pieces_.end() && piece->first < end) {
    const bool overlaps = piece->first + piece->second.bytes.size() > begin;
    piece = overlaps ? pieces_.erase(piece) : std::next(piece);
  }
}

Contents::Pieces::iterator Contents::first_reaching(Address address) {
  const auto after = pieces_.upper_bound(address);
  return after == pieces_.begin() ? after : std::prev(after);
}

Contents& contents() {
  static auto* const known = new Contents;
  return *known;
}

}  // namespace memest::record
