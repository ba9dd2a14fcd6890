// cuBLAS and cuFFT, but for products: what is asked of them.

#include "abi/calls.hpp"
#include "device/journal.hpp"
#include "device/kernels.hpp"

namespace memest::record {
namespace {

constexpr int kVersion = 130000;  // CUBLAS_VERSION of CUDA 13.0

Status no_wrong_argument(Handle library, const char* function, int* info) {
  library_ran(function, library);
  *info = 0;
  return kSuccess;
}

}  // namespace
}  // namespace memest::record

using namespace memest::record;

MEMEST_CALL Status cublasGetVersion_v2(Handle, int* version) {
  *version = kVersion;
  return kSuccess;
}
MEMEST_CALL Status cublasGetPointerMode_v2(Handle, int* mode) {
  *mode = 0;  // CUBLAS_POINTER_MODE_HOST
  return kSuccess;
}
MEMEST_CALL const char* cublasGetStatusString(Status) { return "error of cuBLAS"; }

// LAPACK's batched functions say on the host which of their arguments is wrong: none.
#define MEMEST_BATCHED(type)                                                                       \
  MEMEST_CALL Status cublas##type##geqrfBatched(Handle library, int, int, void* const*, int,       \
                                                void* const*, int* info, int) {                    \
    return no_wrong_argument(library, "cublas" #type "geqrfBatched", info);                        \
  }                                                                                                \
  MEMEST_CALL Status cublas##type##getrsBatched(Handle library, int, int, int, const void* const*, \
                                                int, const int*, void* const*, int, int* info,     \
                                                int) {                                             \
    return no_wrong_argument(library, "cublas" #type "getrsBatched", info);                        \
  }                                                                                                \
  MEMEST_CALL Status cublas##type##gelsBatched(Handle library, int, int, int, int, void* const*,   \
                                               int, void* const*, int, int* info, int*, int) {     \
    return no_wrong_argument(library, "cublas" #type "gelsBatched", info);                         \
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
