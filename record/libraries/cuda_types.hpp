// cudaDataType_t (library_types.h), as far as it is read.
#pragma once

#include <cstddef>

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

}  // namespace memest::record
