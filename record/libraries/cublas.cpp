// cuBLAS, cuBLASLt, cuFFT: what is asked of them. Products do nothing (symbols/).

#include "abi/calls.hpp"
#include "device/journal.hpp"
#include "device/kernels.hpp"

namespace memest::record {
namespace {

constexpr std::size_t kVersion = 130000;  // CUBLAS_VERSION of CUDA 13.0

/// cublasLtMatmulHeuristicResult_t.
struct MatmulHeuristic {
  std::uint64_t algorithm[8];
  std::size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

Status no_wrong_argument(int* info) {
  library_ran();
  *info = 0;
  return kSuccess;
}

}  // namespace
}  // namespace memest::record

using namespace memest::record;

MEMEST_CALL Status cublasGetVersion_v2(Handle, int* version) {
  *version = static_cast<int>(kVersion);
  return kSuccess;
}
MEMEST_CALL Status cublasGetMathMode(Handle, int* mode) {
  *mode = 0;  // CUBLAS_DEFAULT_MATH
  return kSuccess;
}
MEMEST_CALL Status cublasGetPointerMode_v2(Handle, int* mode) {
  *mode = 0;  // CUBLAS_POINTER_MODE_HOST
  return kSuccess;
}
MEMEST_CALL Status cublasGetStream_v2(Handle, Handle* stream) {
  *stream = nullptr;
  return kSuccess;
}
MEMEST_CALL std::size_t cublasLtGetVersion() { return kVersion; }
MEMEST_CALL const char* cublasGetStatusString(Status) { return "error of cuBLAS"; }
MEMEST_CALL const char* cublasLtGetStatusString(Status) { return "error of cuBLAS"; }
/// One algorithm, which needs no workspace: PyTorch allocates its own, whatever the answer.
MEMEST_CALL Status cublasLtMatmulAlgoGetHeuristic(Handle, Handle, Handle, Handle, Handle, Handle,
                                                  Handle, int wanted, MatmulHeuristic* results,
                                                  int* count) {
  *count = wanted > 0 ? 1 : 0;
  if (wanted > 0) {
    results[0] = {};
    results[0].waves = 1;
  }
  return kSuccess;
}

// LAPACK's batched functions say on the host which of their arguments is wrong: none.
#define MEMEST_BATCHED(type)                                                                       \
  MEMEST_CALL Status cublas##type##geqrfBatched(Handle, int, int, void* const*, int, void* const*, \
                                                int* info, int) {                                  \
    return no_wrong_argument(info);                                                                \
  }                                                                                                \
  MEMEST_CALL Status cublas##type##getrsBatched(Handle, int, int, int, const void* const*, int,    \
                                                const int*, void* const*, int, int* info, int) {   \
    return no_wrong_argument(info);                                                                \
  }                                                                                                \
  MEMEST_CALL Status cublas##type##gelsBatched(Handle, int, int, int, int, void* const*, int,      \
                                               void* const*, int, int* info, int*, int) {          \
    return no_wrong_argument(info);                                                                \
  }
MEMEST_BATCHED(S)
MEMEST_BATCHED(D)
MEMEST_BATCHED(C)
MEMEST_BATCHED(Z)
#undef MEMEST_BATCHED

MEMEST_CALL Status cufftCreate(int* plan) {
  *plan = 1;
  return kSuccess;
}
/// cuFFT's work area is not known: 0.
MEMEST_CALL Status cufftXtMakePlanMany(int, int, long long*, long long*, long long, long long, int,
                                       long long*, long long, long long, int, long long,
                                       std::size_t* bytes, int) {
  note_zero("Work areas of cuFFT's plans");
  *bytes = 0;
  return kSuccess;
}
