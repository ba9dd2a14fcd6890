// One call of a streaming kernel on a device. Kernel headers include this and no CUDA; their
// sources launch from it.
#pragma once

#include <cstdint>

#include "memest/spec/dtype.hpp"

struct CUstream_st;  // what CUDA's stream handle points to

namespace memest::kernels {

using Stream = CUstream_st*;

struct Call {
  DType dtype = DType::fp32;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  void* const* operands = nullptr;  ///< on the device, in the order of the kernel's description
  Stream stream = nullptr;

  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
  template <class T>
  [[nodiscard]] T* operand(int index) const {
    return static_cast<T*>(operands[index]);
  }
};

/// Throws EnvironmentError where the last launch failed.
void check_launch();

}  // namespace memest::kernels
