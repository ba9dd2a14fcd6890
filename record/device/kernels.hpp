// Kernels by the address of their host stub, and which of them decide what a program branches on.
#pragma once

#include "abi/calls.hpp"
#include "abi/cudart.hpp"

namespace memest::record {

/// The kernel behind a host stub, registered when its library is loaded.
void register_kernel(const void* stub, const char* mangled_name);

/// The name of a kernel that a module or a library has, behind the handle that the driver answers.
void name_kernel(Handle kernel, const char* name);

struct Launch {
  const void* kernel = nullptr;  ///< its host stub, or the driver's handle
  Dim3 grid;
  Dim3 block;
  Handle stream = nullptr;
};

/// Runs nothing: what it may have written is no longer known, and a bool that is read next is
/// answered.
void launch(const Launch& call, void** arguments);

/// A call of cuBLAS, cuDNN and the like, which would have run kernels in the stream of the
/// library's handle. `function` is null where the call is no work: it sets or destroys something.
void library_ran(const char* function, Handle library);

}  // namespace memest::record
