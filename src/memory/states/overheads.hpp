// Memory beside states and activations: library workspaces, communication buckets, gathered units,
// and the CUDA context outside the allocator.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/memory/ledger.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// PyTorch 2.11 (aten/src/ATen/cuda/CublasHandlePool.cpp): 32 MiB on compute capability 9.0, else
/// 4096 KiB · 2 + 16 KiB · 8; one each for the forward and the autograd thread.
std::int64_t cublas_workspace_bytes(const GpuSpec& gpu);
/// Transformer Engine 2.11 (cpp_extensions/gemm.py): 32 MiB and 1 KiB from compute capability 9.0
/// on, 4 MiB before, one for the process.
std::int64_t transformer_engine_workspace_bytes(const GpuSpec& gpu);
/// cublasLt keeps 1 MiB of its own from the first addmm with a one-dimensional bias.
inline constexpr std::int64_t kCublasLtWorkspace = kMiB;

/// cuBLAS and cublasLt workspaces, kept from their first use.
std::vector<LedgerTerm> workspace_terms(const Graph& graph, const Job& job);

/// Gradients' communication buffers that are alive all the time (DDP).
std::vector<LedgerTerm> resident_bucket_terms(const Job& job);

/// Terms outside the allocator, with their interval.
struct OutsideTerms {
  std::vector<LedgerTerm> terms;
  Bytes low;
  Bytes high;
};
OutsideTerms outside_terms(const Job& job);

}  // namespace memest
