// What every answered call shares: how it is exported, and the numbers of success and failure that
// CUDA's libraries return.
#pragma once

#include <cstddef>
#include <cstdint>

/// A function of a CUDA library that the null device answers.
#define MEMEST_CALL extern "C" __attribute__((visibility("default")))

namespace memest::record {

/// cudaError_t, CUresult, cublasStatus_t, cudnnStatus_t, ncclResult_t and the like: enums of four
/// bytes, 0 is success.
using Status = int;

inline constexpr Status kSuccess = 0;

// cudaError_t and CUresult share these numbers (driver_types.h, cuda.h).
inline constexpr Status kInvalidValue = 1;
inline constexpr Status kOutOfMemory = 2;
inline constexpr Status kMissingConfiguration = 52;
inline constexpr Status kNoDevice = 100;
inline constexpr Status kInvalidDevice = 101;
inline constexpr Status kNotFound = 500;
inline constexpr Status kNotSupported = 801;

/// A stream, an event, a library's context, a descriptor: a number that nobody dereferences.
using Handle = void*;

}  // namespace memest::record
