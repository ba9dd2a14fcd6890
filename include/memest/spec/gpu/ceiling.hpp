// The best rate that somebody published of a kernel on a GPU type: what measured rates are held
// against.
#pragma once

#include <string>

#include "memest/spec/gpu/kernel_shape.hpp"

namespace memest {

struct Ceiling {
  std::string gpu;     ///< slug
  std::string kernel;  ///< as ceiling_name() calls it
  double rate = 0;     ///< FLOP/s of a matrix product, else bytes/s
  std::string conditions;
  std::string source;
  std::string license;  ///< of the source's figures
};

/// "matmul bf16", "softmax forward"; other kernels are called as their shapes are.
std::string ceiling_name(const KernelShape& shape);

}  // namespace memest
