// Element types of tensors, with their sizes. The names are PyTorch's short ones.
#pragma once

#include <cstdint>
#include <string_view>

#include "memest/diag/expect.hpp"

namespace memest {

enum class DType : std::uint8_t {
  fp32,
  bf16,
  fp16,
  fp8,
  fp4,  ///< of operands of products alone: two lie in a byte
  fp64,
  int64,
  int32,
  int8,
  uint8,
  boolean
};

/// Bytes an element; not of fp4, of which no tensor is made.
constexpr std::int64_t size_of(DType type) {
  switch (type) {
    case DType::fp64:
    case DType::int64:
      return 8;
    case DType::fp32:
    case DType::int32:
      return 4;
    case DType::bf16:
    case DType::fp16:
      return 2;
    case DType::fp8:
    case DType::int8:
    case DType::uint8:
    case DType::boolean:
      return 1;
    case DType::fp4:
      unreachable("no tensor is made of fp4");
  }
  return 0;
}

constexpr bool is_half(DType type) { return type == DType::bf16 || type == DType::fp16; }

/// "bf16", "fp32", ...
std::string_view name_of(DType type);

}  // namespace memest
