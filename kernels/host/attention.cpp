#include "kernels/host/attention.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "kernels/attention.hpp"

namespace memest::kernels {
namespace {

constexpr std::int64_t kBlock = 64;  // queries that share a matrix of scores

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using View = Eigen::Map<Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;

View view(const HeadRows<float>& rows, std::int64_t first, std::int64_t count) {
  return {rows.row(first), count, rows.dim, Eigen::OuterStride<>(rows.stride)};
}

/// Some queries of a head, and the keys that any of them sees.
class Block {
 public:
  Block(const AttentionShape& shape, const AttentionHead<float>& head, std::int64_t first)
      : head_(head),
        first_(first),
        queries_(std::min(kBlock, shape.seq_len - first)),
        // A causal block of queries sees the keys up to its last query; masked scores above are set
        // to zero.
        keys_(shape.causal ? first + queries_ : shape.seq_len),
        causal_(shape.causal),
        scale_(1 / std::sqrt(static_cast<float>(shape.head_dim))) {}

  void forward() const {
    Matrix shares = scores();
    for (std::int64_t query = 0; query < queries_; ++query) {
      auto row = shares.row(query).head(seen(query));
      const float largest = row.maxCoeff();
      row = (row.array() - largest).exp();
      const float sum = row.sum();
      row /= sum;
      head_.lse[first_ + query] = largest + std::log(sum);
      shares.row(query).tail(keys_ - seen(query)).setZero();
    }
    of_queries(head_.o).noalias() = shares * of_keys(head_.v);
  }

  /// Adds to dk and dv.
  void backward() const {
    Matrix shares = scores();
    for (std::int64_t query = 0; query < queries_; ++query) {
      auto row = shares.row(query).head(seen(query));
      row = (row.array() - head_.lse[first_ + query]).exp();
      shares.row(query).tail(keys_ - seen(query)).setZero();
    }
    const View d_o = of_queries(head_.d_o);
    of_keys(head_.dv).noalias() += shares.transpose() * d_o;
    // FlashAttention's delta: the row sums of dO · O are what a softmax's gradient subtracts.
    const Eigen::VectorXf shared = d_o.cwiseProduct(of_queries(head_.o)).rowwise().sum();
    Matrix of_scores = d_o * of_keys(head_.v).transpose();
    of_scores.colwise() -= shared;
    of_scores = scale_ * of_scores.cwiseProduct(shares);
    of_queries(head_.dq).noalias() = of_scores * of_keys(head_.k);
    of_keys(head_.dk).noalias() += of_scores.transpose() * of_queries(head_.q);
  }

 private:
  [[nodiscard]] std::int64_t seen(std::int64_t query) const {
    return causal_ ? first_ + query + 1 : keys_;
  }
  [[nodiscard]] View of_queries(const HeadRows<float>& rows) const {
    return view(rows, first_, queries_);
  }
  [[nodiscard]] View of_keys(const HeadRows<float>& rows) const { return view(rows, 0, keys_); }
  [[nodiscard]] Matrix scores() const {
    return scale_ * (of_queries(head_.q) * of_keys(head_.k).transpose());
  }

  const AttentionHead<float>& head_;
  std::int64_t first_;
  std::int64_t queries_;
  std::int64_t keys_;
  bool causal_;
  float scale_;
};

void run_head(const AttentionShape& shape, const AttentionHead<float>& head) {
  for (std::int64_t first = 0; first < shape.seq_len; first += kBlock) {
    const Block block(shape, head, first);
    shape.pass == KernelPass::forward ? block.forward() : block.backward();
  }
}

}  // namespace

void host_attention(const AttentionShape& shape, float* const* operands) {
  const std::int64_t group = shape.heads / shape.kv_heads;
  for (std::int64_t sequence = 0; sequence < shape.batch; ++sequence) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const auto one = attention_head(shape, operands, sequence, head);
      if (shape.pass == KernelPass::backward && head % group == 0) {
        view(one.dk, 0, shape.seq_len).setZero();
        view(one.dv, 0, shape.seq_len).setZero();
      }
      run_head(shape, one);
    }
  }
}

}  // namespace memest::kernels
