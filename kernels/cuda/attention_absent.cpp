// In the place of attention.cpp where cuDNN's headers or its frontend's were not found.
#include "kernels/cuda/attention.hpp"
#include "memest/diag/expect.hpp"

namespace memest::kernels {

class CudnnAttention::Plans {};

CudnnAttention::CudnnAttention() = default;
CudnnAttention::~CudnnAttention() = default;

std::string CudnnAttention::library() const { return {}; }

bool CudnnAttention::supports(const AttentionShape&) const { return false; }

Workload CudnnAttention::workload(const AttentionShape&) const {
  unreachable("attention that is not supported is not run");
}

}  // namespace memest::kernels
