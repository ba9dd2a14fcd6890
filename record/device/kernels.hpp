// Kernels by the address of their host stub, and which of them decide what a program branches on.
#pragma once

#include "abi/cudart.hpp"

namespace memest::record {

/// The kernel behind a host stub, registered when its library is loaded.
void register_kernel(const void* stub, const char* mangled_name);

/// Runs nothing: what it may have written is no longer known, and a bool that is read next is
/// answered.
void launch(const void* kernel, void** arguments);

/// A call of cuBLAS, cuDNN and the like, which would have run kernels.
void library_ran();

}  // namespace memest::record
