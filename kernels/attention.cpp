#include "kernels/attention.hpp"

#include <algorithm>
#include <cmath>

#include "memest/kernels/traffic.hpp"

namespace memest::kernels {
namespace {

using Rows = HeadRows<double>;

double product(const double* left, const double* right, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += left[i] * right[i];
  return sum;
}
void add_scaled(double factor, const double* row, double* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += factor * row[i];
}
void clear(const Rows& rows, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) std::fill_n(rows.row(i), rows.dim, 0.0);
}

/// How many keys the query at `position` sees.
std::int64_t keys_of(const AttentionShape& shape, std::int64_t position) {
  return shape.causal ? position + 1 : shape.seq_len;
}

/// A query's scores with the keys that it sees.
std::vector<double> scores_of(const AttentionShape& shape, const AttentionHead<double>& head,
                              std::int64_t query) {
  const double scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  std::vector<double> scores;
  for (std::int64_t key = 0; key < keys_of(shape, query); ++key) {
    scores.push_back(scale * product(head.q.row(query), head.k.row(key), shape.head_dim));
  }
  return scores;
}

void run_forward(const AttentionShape& shape, const AttentionHead<double>& head) {
  clear(head.o, shape.seq_len);
  for (std::int64_t query = 0; query < shape.seq_len; ++query) {
    const std::vector<double> scores = scores_of(shape, head, query);
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (const double score : scores) sum += std::exp(score - largest);
    head.lse[query] = largest + std::log(sum);
    for (std::size_t key = 0; key < scores.size(); ++key) {
      add_scaled(std::exp(scores[key] - head.lse[query]),
                 head.v.row(static_cast<std::int64_t>(key)), head.o.row(query), head.o.dim);
    }
  }
}

/// Adds to what the group has.
void run_backward(const AttentionShape& shape, const AttentionHead<double>& head) {
  const double scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  clear(head.dq, shape.seq_len);
  for (std::int64_t query = 0; query < shape.seq_len; ++query) {
    const std::vector<double> scores = scores_of(shape, head, query);
    const double* output_gradient = head.d_o.row(query);
    const double shared = product(output_gradient, head.o.row(query), head.o.dim);
    for (std::int64_t key = 0; key < keys_of(shape, query); ++key) {
      const double share = std::exp(scores[static_cast<std::size_t>(key)] - head.lse[query]);
      const double of_share = product(output_gradient, head.v.row(key), head.v.dim);
      const double of_score = share * (of_share - shared) * scale;
      add_scaled(share, output_gradient, head.dv.row(key), head.dv.dim);
      add_scaled(of_score, head.k.row(key), head.dq.row(query), head.dq.dim);
      add_scaled(of_score, head.q.row(query), head.dk.row(key), head.dk.dim);
    }
  }
}

std::int64_t elements(const AttentionShape& shape, std::int64_t heads, std::int64_t dim) {
  return shape.batch * shape.seq_len * heads * dim;
}

}  // namespace

bool is_attention(const AttentionShape& shape) {
  return std::min({shape.batch, shape.heads, shape.kv_heads, shape.seq_len, shape.head_dim,
                   shape.value_head_dim}) > 0 &&
         shape.heads % shape.kv_heads == 0;
}

Description describe_attention(const AttentionShape& shape) {
  const std::int64_t q = elements(shape, shape.heads, shape.head_dim);
  const std::int64_t k = elements(shape, shape.kv_heads, shape.head_dim);
  const std::int64_t v = elements(shape, shape.kv_heads, shape.value_head_dim);
  const std::int64_t o = elements(shape, shape.heads, shape.value_head_dim);
  const bool is_backward = shape.pass == KernelPass::backward;
  const Access left = is_backward ? Access::reads : Access::writes;
  Description description{
      .operands = {{.name = "q", .dtype = shape.dtype, .elements = q},
                   {.name = "k", .dtype = shape.dtype, .elements = k},
                   {.name = "v", .dtype = shape.dtype, .elements = v},
                   {.name = "o", .dtype = shape.dtype, .elements = o, .access = left},
                   {.name = "lse", .elements = elements(shape, shape.heads, 1), .access = left}},
      .flops = static_cast<std::int64_t>(attention_flops(shape).value())};
  if (!is_backward) return description;
  description.operands.push_back({.name = "do", .dtype = shape.dtype, .elements = o});
  for (const auto& [name, count] : {std::pair{"dq", q}, std::pair{"dk", k}, std::pair{"dv", v}}) {
    description.operands.push_back(
        {.name = name, .dtype = shape.dtype, .elements = count, .access = Access::writes});
  }
  return description;
}

AttentionShape forward_of(AttentionShape shape) {
  shape.pass = KernelPass::forward;
  return shape;
}

void attention_reference(const AttentionShape& shape, double* const* operands) {
  const std::int64_t group = shape.heads / shape.kv_heads;
  for (std::int64_t sequence = 0; sequence < shape.batch; ++sequence) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const auto one = attention_head(shape, operands, sequence, head);
      if (shape.pass == KernelPass::forward) {
        run_forward(shape, one);
        continue;
      }
      if (head % group == 0) {
        clear(one.dk, shape.seq_len);
        clear(one.dv, shape.seq_len);
      }
      run_backward(shape, one);
    }
  }
}

}  // namespace memest::kernels
