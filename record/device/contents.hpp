// What is known of the contents of device memory: small copies from the host, until a kernel runs
// that could have changed them.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "device/address_space.hpp"

namespace memest::record {

/// Thread-safe. A size-prefixed list that a program sends to the device and reads back (a shape, a
/// pickled object that all ranks gather) is as it was sent; whatever else is read is zero, but the
/// result of a comparison.
class Contents {
 public:
  /// Copies between any two of host and device.
  void copy(void* to, const void* from, std::size_t size);
  void forget(const void* device, std::size_t size);
  /// Whatever is known may have been overwritten; `bool_result` is what a bool read next holds.
  void kernel_ran(bool bool_result);
  /// The same of a kernel that writes only there.
  void kernel_wrote(const void* device, std::size_t size, bool bool_result);
  /// A kernel that has run left this there, by an assumption: whoever reads it is noted.
  void assume(const void* device, const void* bytes, std::size_t size);

 private:
  struct Piece {
    std::vector<char> bytes;
    bool is_assumed = false;
  };
  using Pieces = std::map<Address, Piece>;

  void write(const void* device, const void* host, std::size_t size, bool is_assumed);
  /// Whether all of it is known, and nothing of it assumed.
  bool read(void* host, const void* device, std::size_t size);
  void erase(const void* device, std::size_t size);
  [[nodiscard]] Pieces::iterator first_reaching(Address address);

  std::mutex mutex_;
  Pieces pieces_;
  std::atomic<bool> known_{false};  // whether there are pieces: a launch must not take the lock
};

/// Never destroyed, as memory().
Contents& contents();

}  // namespace memest::record
