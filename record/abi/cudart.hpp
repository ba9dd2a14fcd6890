// Types of the CUDA runtime as its binary interface lays them out, the same under CUDA 12 and 13
// (driver_types.h, vector_types.h).
#pragma once

#include <cstddef>

namespace memest::record {

/// dim3.
struct Dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

/// cudaLaunchConfig_t.
struct LaunchConfig {
  Dim3 grid;
  Dim3 block;
  std::size_t shared_bytes;
  void* stream;
  void* attributes;
  unsigned attribute_count;
};

/// cudaMemoryType.
enum class MemoryType : int { unregistered = 0, host = 1, device = 2 };

/// cudaPointerAttributes as CUDA 12 has it; CUDA 13 has reserved words behind, which stay as they
/// are.
struct PointerAttributes {
  MemoryType type;
  int device;
  void* device_pointer;
  void* host_pointer;
};

/// cudaFuncAttributes.
struct FunctionAttributes {
  std::size_t shared_bytes;
  std::size_t constant_bytes;
  std::size_t local_bytes;
  int max_threads_per_block;
  int registers;
  int ptx_version;
  int binary_version;
  int cache_mode;
  int max_dynamic_shared_bytes;
  int rest[23];  // carveout, clusters and reserved words: zero
};

}  // namespace memest::record
