// cudaDataType_t (library_types.h), as far as it is read.
#pragma once

#include <cstddef>
#include <cstring>

#include "device/memory.hpp"

namespace memest::record {

enum DataType : int {
  kReal32 = 0,
  kReal64 = 1,
  kReal16 = 2,
  kComplex32 = 4,
  kComplex64 = 5,
};

/// Bytes of a scalar alpha or beta.
constexpr std::size_t scalar_size(int type) {
  switch (type) {
    case kReal16:
      return 2;
    case kReal64:
    case kComplex32:
      return 8;
    case kComplex64:
      return 16;
    default:
      return 4;
  }
}

/// Whether a scalar beta adds to the result. One that lies on the device cannot be asked, and is
/// taken as 0.
inline bool is_set(const void* beta, int type) {
  if (beta == nullptr || memory().is_device(beta)) return false;
  const unsigned char zeros[2 * sizeof(double)] = {};
  return std::memcmp(beta, zeros, scalar_size(type)) != 0;
}

}  // namespace memest::record
