// Memory beside states and activations: library workspaces, communication buckets, gathered units,
// and the CUDA context outside the allocator.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/memory/ledger.hpp"
#include "memest/spec/job.hpp"
#include "memest/spec/releases/torch_release.hpp"

namespace memest {

/// Bytes of the libraries' workspaces, and how long PyTorch's live.
struct WorkspaceSizes {
  std::int64_t cublas = 0;
  std::int64_t cublas_lt = 0;
  std::int64_t transformer_engine = 0;
  WorkspaceLife cublas_life = WorkspaceLife::process;
  WorkspaceLife cublas_lt_life = WorkspaceLife::process;
};

/// PyTorch (aten/src/ATen/cuda/CublasHandlePool.cpp): for each thread 32 MiB on compute capability
/// 9.0, and in newer releases on 10.x and 12.x, else 4096 KiB · 2 + 16 KiB · 8; cublasLt has 1 MiB
/// of its own. Transformer Engine 2.11 (cpp_extensions/gemm.py): 32 MiB and 1 KiB from compute
/// capability 9.0 on, 4 MiB before, one for the process.
WorkspaceSizes workspaces_of(const Job& job);

/// cuBLAS and cublasLt workspaces, kept from their first use.
std::vector<LedgerTerm> workspace_terms(const Graph& graph, const Job& job);

/// Gradients' communication buffers that are alive all the time (DDP).
std::vector<LedgerTerm> resident_bucket_terms(const Job& job, const Inventory& inventory);

/// Terms outside the allocator, with their interval.
struct OutsideTerms {
  std::vector<LedgerTerm> terms;
  Bytes low;
  Bytes high;
};
OutsideTerms outside_terms(const Job& job);

}  // namespace memest
