#include "time/optimizer_products.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "memest/diag/expect.hpp"
#include "memest/units/quantity.hpp"

namespace memest {
namespace {

/// A size of a stepped matrix [rows, columns].
enum class MatrixSize : std::uint8_t { rows, columns, shorter_side, longer_side };
using enum MatrixSize;

/// A product [m, k] · [k, n] of a step, for each stepped matrix.
struct StepProduct {
  MatrixSize m = {};
  MatrixSize n = {};
  MatrixSize k = {};
  /// A step: below 1 where not every step has it. A decomposition is as many products as have its
  /// FLOPs.
  double times = 1;
  DType operand = DType::fp32;
  std::optional<MatrixSize> factor = {};  ///< the square factor that it is of
};

/// Five steps of Newton-Schulz: X·Xᵀ, A·A and B·X, of a matrix transposed so that its rows are the
/// fewer (torch/optim/_muon.py, _zeropower_via_newtonschulz).
constexpr std::array kMuon = {StepProduct{shorter_side, shorter_side, longer_side, 5, DType::bf16},
                              StepProduct{shorter_side, shorter_side, shorter_side, 5, DType::bf16},
                              StepProduct{shorter_side, longer_side, shorter_side, 5, DType::bf16}};

/// Eigenvectors of a symmetric matrix take 9 n³ FLOPs (Golub and Van Loan, Matrix Computations,
/// 8.3), V·D·Vᵀ 2 n³: products of 2 n³.
constexpr double kInverseRoot = (9.0 + 2.0) / 2.0;

/// Every step, as Gupta et al.'s algorithm has it (arXiv 1802.09568): statistics, the gradient
/// between both roots, the roots.
constexpr std::array kShampoo = {StepProduct{rows, rows, columns},
                                 StepProduct{columns, columns, rows},
                                 StepProduct{rows, columns, rows},
                                 StepProduct{rows, columns, columns},
                                 StepProduct{rows, rows, rows, kInverseRoot},
                                 StepProduct{columns, columns, columns, kInverseRoot}};

/// Gradient and update into the basis and back, the momentum back and into the new one.
constexpr double kProjections = 4;
/// Every tenth step (precondition_frequency) a basis from one power iteration: three products, and
/// a QR with its Q of 8/3 n³.
constexpr double kBasis = (3 + 4.0 / 3.0) / 10;

/// SOAP's code (nikhilvyas/SOAP, soap.py).
constexpr std::array kSoap = {
    StepProduct{rows, rows, columns, 1, DType::fp32, rows},
    StepProduct{columns, columns, rows, 1, DType::fp32, columns},
    StepProduct{rows, columns, rows, kProjections, DType::fp32, rows},
    StepProduct{rows, columns, columns, kProjections, DType::fp32, columns},
    StepProduct{rows, rows, rows, kBasis, DType::fp32, rows},
    StepProduct{columns, columns, columns, kBasis, DType::fp32, columns}};

struct OptimizerRow {
  OptimizerRule rule;
  std::span<const StepProduct> products;
};
constexpr std::array kOptimizers = {OptimizerRow{OptimizerRule::muon, kMuon},
                                    OptimizerRow{OptimizerRule::shampoo, kShampoo},
                                    OptimizerRow{OptimizerRule::soap, kSoap}};

/// Empty for those that only pass over their tensors.
std::span<const StepProduct> products_of(const Optimizer& optimizer) {
  for (const OptimizerRow& row : kOptimizers) {
    if (row.rule == optimizer.rule) return row.products;
  }
  return {};
}

/// Dimensions above it keep no square factor; 0: no limit.
std::int64_t largest_factor_of(const Optimizer& optimizer) {
  std::int64_t largest = 0;
  for (const OptimizerState& state : optimizer.states) {
    largest = std::max(largest, state.largest_factor);
  }
  return largest;
}

/// `count` matrices of one shape.
struct Matrices {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  double count = 1;
};

/// None of a vector. Experts that lie in one tensor are as many matrices.
std::optional<Matrices> matrices_of(const ParameterTensor& parameter) {
  const std::vector<std::int64_t>& shape = parameter.shape;
  if (shape.size() < 2) return std::nullopt;
  // [experts, rows, columns]: a product for each expert. A convolution of four dimensions is
  // flattened behind its first.
  const bool stacked = shape.size() == 3;
  Matrices matrices{.rows = shape[stacked ? 1 : 0], .columns = 1};
  for (std::size_t i = stacked ? 2 : 1; i < shape.size(); ++i) {
    matrices.columns = checked_multiply(matrices.columns, shape[i]);
  }
  matrices.count =
      static_cast<double>(parameter.count) * (stacked ? static_cast<double>(shape[0]) : 1.0);
  return matrices;
}

std::int64_t size_of(MatrixSize size, const Matrices& matrices) {
  switch (size) {
    case MatrixSize::rows:
      return matrices.rows;
    case MatrixSize::columns:
      return matrices.columns;
    case MatrixSize::shorter_side:
      return std::min(matrices.rows, matrices.columns);
    case MatrixSize::longer_side:
      return std::max(matrices.rows, matrices.columns);
  }
  unreachable("every size of a matrix has a value");
}

bool has_factor(const StepProduct& product, const Matrices& matrices, std::int64_t largest) {
  // soap.py, max_precond_dim: a vocabulary of 128,256 rows keeps no factor, and its hidden size
  // does.
  return !product.factor || largest == 0 || size_of(*product.factor, matrices) <= largest;
}

void add(std::vector<OptimizerProduct>& products, const MatmulShape& shape, double times) {
  const auto same = std::find_if(products.begin(), products.end(),
                                 [&shape](const auto& other) { return other.shape == shape; });
  if (same == products.end()) {
    products.push_back({shape, times});
  } else {
    same->times += times;
  }
}

}  // namespace

bool computes_products(const Optimizer& optimizer) { return !products_of(optimizer).empty(); }

std::vector<OptimizerProduct> optimizer_products(const Inventory& inventory,
                                                 const TrainingSpec& training) {
  std::vector<OptimizerProduct> products;
  const std::span<const StepProduct> of_a_step = products_of(training.optimizer);
  if (of_a_step.empty()) return products;
  const std::int64_t largest = largest_factor_of(training.optimizer);
  for (const ParameterTensor& parameter : inventory.parameters) {
    const std::optional<Matrices> matrices = matrices_of(parameter);
    if (!parameter.trainable || !matrices || matrices->rows == 0 || matrices->columns == 0)
      continue;
    for (const StepProduct& product : of_a_step) {
      if (!has_factor(product, *matrices, largest)) continue;
      const MatmulShape shape{.operand = product.operand,
                              .result = product.operand,
                              .m = size_of(product.m, *matrices),
                              .n = size_of(product.n, *matrices),
                              .k = size_of(product.k, *matrices)};
      add(products, shape, product.times * matrices->count);
    }
  }
  return products;
}

}  // namespace memest
