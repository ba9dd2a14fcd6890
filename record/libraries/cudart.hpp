// What the files of the CUDA runtime share.
#pragma once

#include "abi/calls.hpp"

namespace memest::record {

/// Returns the error, which cudaGetLastError tells this thread once.
Status fail(Status error);

/// 0 where `memest record` did not set the process up.
int device_count();
bool is_device(int device);

/// Tells who watches of a copy between host and device, or within either.
void tell_copy(void* to, const void* from, std::size_t size, Handle stream);

}  // namespace memest::record
