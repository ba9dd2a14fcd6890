// Handles are distinct numbers that are never dereferenced.
#pragma once

#include <atomic>
#include <cstdint>

#include "abi/calls.hpp"

namespace memest::record {

inline Handle new_handle() {
  static std::atomic<std::uintptr_t> next{0x7001000};
  return reinterpret_cast<Handle>(next.fetch_add(16));
}

/// The answer of a call that makes something.
inline Status make(Handle* handle) {
  *handle = new_handle();
  return kSuccess;
}

}  // namespace memest::record
