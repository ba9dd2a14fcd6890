#include "kernels/cuda/matmul_plan.hpp"

#include <array>

#include "kernels/matmul.hpp"
#include "memest/diag/expect.hpp"

namespace memest::kernels {
namespace {

constexpr int kMostRanks = 8;

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::fp16:
      return CUDA_R_16F;
    case DType::fp8:
      return CUDA_R_8F_E4M3;
    case DType::fp64:
      return CUDA_R_64F;
    case DType::int64:
      return CUDA_R_64I;
    case DType::int32:
      return CUDA_R_32I;
    case DType::int8:
      return CUDA_R_8I;
    case DType::uint8:
    case DType::boolean:
      return CUDA_R_8U;
    case DType::fp4:
      unreachable("no product of memest's own has operands in fp4");
  }
  return CUDA_R_32F;
}

template <class Value>
void set(const MatmulOperation& operation, cublasLtMatmulDescAttributes_t name,
         const Value& value) {
  check(cublasLtMatmulDescSetAttribute(operation.get(), name, &value, sizeof value));
}
template <class Value>
void set(const MatrixLayout& layout, cublasLtMatrixLayoutAttribute_t name, const Value& value) {
  check(cublasLtMatrixLayoutSetAttribute(layout.get(), name, &value, sizeof value));
}

MatmulOperation make_operation(const CublasLt& library, const MatmulShape& shape) {
  cublasLtMatmulDesc_t made = nullptr;
  check(cublasLtMatmulDescCreate(
      &made, shape.tensor_float ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
  MatmulOperation operation(made);
  // cuBLASLt counts columns first: a row-major C = A · B is its Cᵀ = Bᵀ · Aᵀ, so the right operand
  // comes first.
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, right_along_k(shape) ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, left_along_k(shape) ? CUBLAS_OP_N : CUBLAS_OP_T);
  if (shape.cast_included && shape.scaling == OperandScaling::per_tensor) {
    const void* place = library.workspace().data();  // until calls have theirs: ranks may depend
    set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, place);
  }
  return operation;
}

/// A row-major [slow, fast], `batch` of them one behind the other.
MatrixLayout make_layout(DType dtype, std::int64_t slow, std::int64_t fast, std::int64_t batch) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, cuda_type(dtype), static_cast<std::uint64_t>(fast),
                                   static_cast<std::uint64_t>(slow), fast));
  MatrixLayout layout(made);
  set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
  set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, slow * fast);
  return layout;
}

std::vector<cublasLtMatmulHeuristicResult_t> rank(const MatmulPlan& plan) {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made));
  const MatmulPreference preference(made);
  const auto workspace = static_cast<std::uint64_t>(plan.library.workspace().size().value());
  check(cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace, sizeof workspace));
  std::vector<cublasLtMatmulHeuristicResult_t> results(kMostRanks);
  int found = 0;
  const cublasStatus_t answer = cublasLtMatmulAlgoGetHeuristic(
      plan.library.handle(), plan.operation.get(), plan.right.get(), plan.left.get(),
      plan.result.get(), plan.result.get(), made, kMostRanks, results.data(), &found);
  if (answer == CUBLAS_STATUS_NOT_SUPPORTED) found = 0;  // and that is an answer
  if (answer != CUBLAS_STATUS_NOT_SUPPORTED) check(answer);
  results.resize(static_cast<std::size_t>(found));
  // Results come in the order of the library's own estimate of their time.
  std::erase_if(results, [](const auto& one) { return one.state != CUBLAS_STATUS_SUCCESS; });
  return results;
}

}  // namespace

MatmulPlan::MatmulPlan(const CublasLt& of, const MatmulShape& shape)
    : library(of),
      beta(shape.accumulates ? 1.0F : 0.0F),
      operation(make_operation(of, shape)),
      right(right_along_k(shape) ? make_layout(shape.operand, shape.n, shape.k, shape.batch)
                                 : make_layout(shape.operand, shape.k, shape.n, shape.batch)),
      left(left_along_k(shape) ? make_layout(shape.operand, shape.m, shape.k, shape.batch)
                               : make_layout(shape.operand, shape.k, shape.m, shape.batch)),
      result(make_layout(shape.result, shape.m, shape.n, shape.batch)),
      ranked(rank(*this)) {}

void MatmulPlan::scale_left_by(const void* scale) const {
  set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale);  // our left is the library's second
}

void MatmulPlan::enqueue(int rank, void* const* operands, Stream stream) const {
  const float alpha = 1;
  const cublasLtMatmulHeuristicResult_t& choice = ranked[static_cast<std::size_t>(rank)];
  const DeviceMemory& workspace = library.workspace();
  check(cublasLtMatmul(library.handle(), operation.get(), &alpha, operands[1], right.get(),
                       operands[0], left.get(), &beta, operands[2], result.get(), operands[2],
                       result.get(), &choice.algo, workspace.data(),
                       static_cast<std::size_t>(workspace.size().value()), stream));
}

}  // namespace memest::kernels
