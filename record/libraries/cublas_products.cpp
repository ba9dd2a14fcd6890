// cuBLAS: the products that are asked of it. They do nothing but to be told to who watches.

#include "abi/calls.hpp"
#include "device/kernels.hpp"
#include "device/streams.hpp"
#include "device/work.hpp"
#include "libraries/cuda_types.hpp"

namespace memest::record {
namespace {

/// cublasMath_t and cublasComputeType_t: fp32 through TF32.
constexpr int kTensorFloatMath = 3;
constexpr int kTensorFloatCompute = 77;

/// Each handle's mode, which PyTorch sets before every product of fp32.
thread_local int math_mode = 0;

struct Gemm {
  Handle library = nullptr;
  int transpose_a = 0;  ///< cublasOperation_t: 0 is none
  int transpose_b = 0;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  const void* beta = nullptr;
  int operand = kReal32;
  int result = kReal32;
  int compute = kReal32;  ///< of beta
  bool tensor_float = false;
};

Status multiply(const Gemm& gemm) {
  library_ran(nullptr, gemm.library);
  if (!work().watches()) return kSuccess;
  const bool single = gemm.operand == kReal32;
  work().product({.operand = gemm.operand,
                  .result = gemm.result,
                  .transposes_a = gemm.transpose_a != 0,
                  .transposes_b = gemm.transpose_b != 0,
                  .accumulates = is_set(gemm.beta, gemm.compute),
                  .tensor_float = single && (gemm.tensor_float || math_mode == kTensorFloatMath),
                  .m = gemm.m,
                  .n = gemm.n,
                  .k = gemm.k,
                  .batch = gemm.batch},
                 streams().of_library(gemm.library));
  return kSuccess;
}

/// The type of the scalars of a cublasComputeType_t.
int scalar_of(int compute) {
  constexpr int kCompute16 = 64;
  constexpr int kCompute16Pedantic = 65;
  constexpr int kCompute64 = 70;
  constexpr int kCompute64Pedantic = 71;
  if (compute == kCompute16 || compute == kCompute16Pedantic) return kReal16;
  return compute == kCompute64 || compute == kCompute64Pedantic ? kReal64 : kReal32;
}

}  // namespace
}  // namespace memest::record

using namespace memest::record;

MEMEST_CALL Status cublasSetStream_v2(Handle library, Handle stream) {
  streams().set_library(library, stream);
  return kSuccess;
}
MEMEST_CALL Status cublasGetStream_v2(Handle library, Handle* stream) {
  *stream = streams().of_library(library);
  return kSuccess;
}
MEMEST_CALL Status cublasSetMathMode(Handle, int mode) {
  math_mode = mode;
  return kSuccess;
}
MEMEST_CALL Status cublasGetMathMode(Handle, int* mode) {
  *mode = math_mode;
  return kSuccess;
}

MEMEST_CALL Status cublasGemmEx(Handle library, int transpose_a, int transpose_b, int m, int n,
                                int k, const void*, const void*, int operand, int, const void*, int,
                                int, const void* beta, void*, int result, int, int compute, int) {
  return multiply({library, transpose_a, transpose_b, m, n, k, 1, beta, operand, result,
                   scalar_of(compute), compute == kTensorFloatCompute});
}
MEMEST_CALL Status cublasGemmStridedBatchedEx(Handle library, int transpose_a, int transpose_b,
                                              int m, int n, int k, const void*, const void*,
                                              int operand, int, long long, const void*, int, int,
                                              long long, const void* beta, void*, int result, int,
                                              long long, int batch, int compute, int) {
  return multiply({library, transpose_a, transpose_b, m, n, k, batch, beta, operand, result,
                   scalar_of(compute), compute == kTensorFloatCompute});
}
MEMEST_CALL Status cublasGemmBatchedEx(Handle library, int transpose_a, int transpose_b, int m,
                                       int n, int k, const void*, const void* const*, int operand,
                                       int, const void* const*, int, int, const void* beta,
                                       void* const*, int result, int, int batch, int compute, int) {
  return multiply({library, transpose_a, transpose_b, m, n, k, batch, beta, operand, result,
                   scalar_of(compute), compute == kTensorFloatCompute});
}

// One function for each type: fp32, fp64, and complex numbers of them.
#define MEMEST_PRODUCTS(letter, type)                                                              \
  MEMEST_CALL Status cublas##letter##gemm_v2(Handle library, int transpose_a, int transpose_b,     \
                                             int m, int n, int k, const void*, const void*, int,   \
                                             const void*, int, const void* beta, void*, int) {     \
    return multiply(                                                                               \
        {library, transpose_a, transpose_b, m, n, k, 1, beta, type, type, type, false});           \
  }                                                                                                \
  MEMEST_CALL Status cublas##letter##gemmStridedBatched(                                           \
      Handle library, int transpose_a, int transpose_b, int m, int n, int k, const void*,          \
      const void*, int, long long, const void*, int, long long, const void* beta, void*, int,      \
      long long, int batch) {                                                                      \
    return multiply(                                                                               \
        {library, transpose_a, transpose_b, m, n, k, batch, beta, type, type, type, false});       \
  }                                                                                                \
  MEMEST_CALL Status cublas##letter##gemmBatched(Handle library, int transpose_a, int transpose_b, \
                                                 int m, int n, int k, const void*,                 \
                                                 const void* const*, int, const void* const*, int, \
                                                 const void* beta, void* const*, int, int batch) { \
    return multiply(                                                                               \
        {library, transpose_a, transpose_b, m, n, k, batch, beta, type, type, type, false});       \
  }                                                                                                \
  MEMEST_CALL Status cublas##letter##gemv_v2(Handle library, int transpose, int m, int n,          \
                                             const void*, const void*, int, const void*, int,      \
                                             const void* beta, void*, int) {                       \
    const int rows = transpose == 0 ? m : n;                                                       \
    const int summed = transpose == 0 ? n : m;                                                     \
    return multiply({library, transpose, 0, rows, 1, summed, 1, beta, type, type, type, false});   \
  }
MEMEST_PRODUCTS(S, kReal32)
MEMEST_PRODUCTS(D, kReal64)
MEMEST_PRODUCTS(C, kComplex32)
MEMEST_PRODUCTS(Z, kComplex64)
#undef MEMEST_PRODUCTS
