// Kernels by the address of their host stub, and which of them decide what a program branches on.
#pragma once

#include "abi/cudart.hpp"

namespace memest::record {

/// Programs branch on `(x == y).all()`, `x.sum() == n`, `isnan(x).any()`: what such a kernel leaves
/// is answered as in a healthy program.
enum class Logic { none, all, any, equal };

/// The kernel behind a host stub, registered when its library is loaded.
void register_kernel(const void* stub, const char* mangled_name);

/// Runs nothing: what was known of the memory is gone, and a bool that is read next is answered.
void launch(const void* kernel, void** arguments);

/// A call of cuBLAS, cuDNN and the like, which would have run kernels.
void library_ran();

}  // namespace memest::record
