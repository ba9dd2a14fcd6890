#include "kernels/attention.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/check_shape.hpp"
#include "kernels/element.hpp"
#include "kernels/fill.hpp"
#include "kernels/host/arrays.hpp"
#include "memest/kernels/traffic.hpp"

using namespace memest;
using namespace memest::kernels;
using Catch::Approx;

namespace {

enum : std::size_t { kQ, kK, kV, kO, kLse, kDo, kDq, kDk, kDv };

/// Two sequences of 13, four heads in two groups, values of another width.
AttentionShape odd_shape(bool causal, KernelPass pass = KernelPass::backward) {
  return {.kernel = "",
          .dtype = DType::fp32,
          .pass = pass,
          .causal = causal,
          .batch = 2,
          .heads = 4,
          .kv_heads = 2,
          .seq_len = 13,
          .head_dim = 6,
          .value_head_dim = 5};
}

/// Random operands, with a backward's o and lse as its forward leaves them.
HostArrays<double> operands_of(const AttentionShape& shape) {
  HostArrays<double> arrays(describe_attention(shape), 1);
  if (shape.pass == KernelPass::backward) {
    attention_reference(forward_of(shape), arrays.of_call(0));
  }
  return arrays;
}

using Rows = Eigen::Map<Eigen::MatrixXd, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;

/// A head's [s, dim] in [batch, s, heads, dim], by its four indices and not by attention_head().
Rows rows_of(std::span<double> array, const AttentionShape& shape, Eigen::Index heads,
             Eigen::Index head) {
  const Eigen::Index dim =
      static_cast<Eigen::Index>(array.size()) / shape.batch / shape.seq_len / heads;
  return {array.data() + head * dim, shape.seq_len, dim,
          Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(1, heads * dim)};
}

/// The whole matrix of shares, as the textbook has it.
Eigen::MatrixXd shares_of(const AttentionShape& shape, const Rows& q, const Rows& k) {
  Eigen::MatrixXd scores = q * k.transpose() / std::sqrt(static_cast<double>(shape.head_dim));
  if (shape.causal) {
    for (Eigen::Index i = 0; i < scores.rows(); ++i) {
      for (Eigen::Index j = i + 1; j < scores.cols(); ++j) scores(i, j) = -INFINITY;
    }
  }
  Eigen::MatrixXd shares = scores.array().exp();
  for (Eigen::Index i = 0; i < shares.rows(); ++i) shares.row(i) /= shares.row(i).sum();
  return shares;
}

/// Σ o∘do of the whole call, whose gradients the backward makes.
double loss_of(const AttentionShape& shape, HostArrays<double>& arrays) {
  attention_reference(forward_of(shape), arrays.of_call(0));
  const auto o = arrays.operand(kO);
  return std::inner_product(o.begin(), o.end(), arrays.operand(kDo).begin(), 0.0);
}

/// By the central difference over every element of an input.
std::vector<double> differences(const AttentionShape& shape, HostArrays<double>& arrays,
                                std::size_t input) {
  constexpr double kStep = 1e-4;
  std::vector<double> gradient;
  for (double& element : arrays.operand(input)) {
    const double before = element;
    element = before + kStep;
    const double above = loss_of(shape, arrays);
    element = before - kStep;
    const double below = loss_of(shape, arrays);
    element = before;
    gradient.push_back((above - below) / (2 * kStep));
  }
  return gradient;
}

double rounded_to_bf16(double value) { return to_float(to_bf16(static_cast<float>(value))); }

}  // namespace

TEST_CASE("the reference is the textbook's attention") {
  for (const bool causal : {false, true}) {
    AttentionShape shape = odd_shape(causal, KernelPass::forward);
    shape.batch = 1;
    HostArrays<double> arrays = operands_of(shape);
    attention_reference(shape, arrays.of_call(0));
    for (const Eigen::Index head : {0, 1, 2, 3}) {
      const Rows q = rows_of(arrays.operand(kQ), shape, 4, head);
      const Rows k = rows_of(arrays.operand(kK), shape, 2, head / 2);
      const Rows v = rows_of(arrays.operand(kV), shape, 2, head / 2);
      const Rows o = rows_of(arrays.operand(kO), shape, 4, head);
      CHECK((shares_of(shape, q, k) * v - o).norm() < 1e-12);
      const double first_score = q.row(0).dot(k.row(0)) / std::sqrt(6.0);
      const double first_share = shares_of(shape, q, k)(0, 0);
      CHECK(arrays.operand(kLse)[static_cast<std::size_t>(13 * head)] ==
            Approx(first_score - std::log(first_share)));
    }
  }
}

TEST_CASE("the reference's gradients are the differences of its forward") {
  for (const bool causal : {false, true}) {
    const AttentionShape shape = odd_shape(causal);
    HostArrays<double> arrays = operands_of(shape);
    attention_reference(shape, arrays.of_call(0));
    for (const auto& [input, gradient] :
         {std::pair{kQ, kDq}, std::pair{kK, kDk}, std::pair{kV, kDv}}) {
      const auto made = arrays.operand(gradient);
      const std::vector<double> kept(made.begin(), made.end());
      CHECK(largest_error(kept, differences(shape, arrays, input)) < 1e-6);
    }
  }
}

TEST_CASE("a call moves each operand once and multiplies what a query sees") {
  AttentionShape shape = odd_shape(false, KernelPass::forward);
  const std::int64_t tokens = 2 * 13;
  CHECK(traffic(describe_attention(shape)) ==
        Bytes(tokens * (4 * 6 + 2 * 6 + 2 * 5 + 4 * 5 + 4) * 4));
  CHECK(attention_flops(shape) == Flops(2 * 2 * 4 * 13 * 13 * (6 + 5)));
  shape.pass = KernelPass::backward;
  CHECK(traffic(describe_attention(shape)) ==
        Bytes(tokens * (2 * (4 * 6 + 2 * 6 + 2 * 5 + 4 * 5) + 4) * 4));
  CHECK(attention_flops(shape) == Flops(2 * 2 * 4 * 13 * 13 * (3 * 6 + 2 * 5)));
  shape.causal = true;
  CHECK(attention_flops(shape) == Flops(2 * 4 * 13 * 13 * (3 * 6 + 2 * 5)));
}

TEST_CASE("attention that divides no heads is none") {
  CHECK(is_attention(odd_shape(true)));
  AttentionShape shape = odd_shape(true);
  shape.kv_heads = 3;
  CHECK_FALSE(is_attention(shape));
  shape.kv_heads = 0;
  CHECK_FALSE(is_attention(shape));
  shape = odd_shape(true);
  shape.value_head_dim = 0;
  CHECK_FALSE(is_attention(shape));
}

TEST_CASE("attention is checked with its widths and in groups, at few positions") {
  const AttentionShape small = check_shape(AttentionShape{.kernel = "",
                                                          .batch = 8,
                                                          .heads = 64,
                                                          .kv_heads = 8,
                                                          .seq_len = 16'384,
                                                          .head_dim = 128,
                                                          .value_head_dim = 128});
  CHECK(small.seq_len == 256);
  CHECK(small.heads == 4);
  CHECK(small.kv_heads == 2);
  CHECK(small.head_dim == 128);
  const AttentionShape alone = check_shape(AttentionShape{
      .kernel = "", .heads = 3, .kv_heads = 3, .seq_len = 5, .head_dim = 64, .value_head_dim = 64});
  CHECK(alone.heads == 2);
  CHECK(alone.kv_heads == 2);
  CHECK(alone.seq_len == 5);
}

TEST_CASE("the tolerance lets a kernel round its shares and does not let it be wrong") {
  const AttentionShape shape{.kernel = "",
                             .dtype = DType::bf16,
                             .causal = true,
                             .heads = 1,
                             .kv_heads = 1,
                             .seq_len = 192,
                             .head_dim = 128,
                             .value_head_dim = 128};
  HostArrays<double> arrays = operands_of(shape);
  for (const std::size_t input : {kQ, kK, kV}) {
    const auto values = arrays.operand(input);
    std::transform(values.begin(), values.end(), values.begin(), rounded_to_bf16);
  }
  attention_reference(shape, arrays.of_call(0));
  const Rows q = rows_of(arrays.operand(kQ), shape, 1, 0);
  const Rows k = rows_of(arrays.operand(kK), shape, 1, 0);
  const Rows v = rows_of(arrays.operand(kV), shape, 1, 0);
  const auto error = [&](const Eigen::MatrixXd& shares) {
    const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> o =
        (shares * v).unaryExpr(&rounded_to_bf16);
    return mean_error({o.data(), static_cast<std::size_t>(o.size())}, arrays.operand(kO));
  };
  const Eigen::MatrixXd shares = shares_of(shape, q, k);
  CHECK(error(shares.unaryExpr(&rounded_to_bf16)) < tolerance(DType::bf16));
  CHECK(error(shares * 1.05) > tolerance(DType::bf16));
  AttentionShape other = shape;
  other.head_dim = 120;  // another scale
  CHECK(error(shares_of(other, q, k)) > tolerance(DType::bf16));
  other = shape;
  other.causal = false;
  CHECK(error(shares_of(other, q, k)) > tolerance(DType::bf16));
}
