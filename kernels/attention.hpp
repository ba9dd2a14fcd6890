// Fused attention. For each sequence and each head, whose keys and values it shares with the other
// heads of its group, over scores of which a causal query sees those of its own and earlier
// positions:
//
//   S = Q·Kᵀ/√d   P = softmax(S)   O = P·V   L = log Σ exp S, of each row
//
// Backward, from what forward left and dO, with D = Σ dO∘O of each row, and summed over a group:
//
//   dV = Pᵀ·dO   dS = P∘(dO·Vᵀ - D)   dQ = dS·K/√d   dK = dSᵀ·Q/√d
//
// Q and O are [batch, s, heads, d], K and V [batch, s, kv_heads, d], as projections leave them; V
// and O may have another d than Q and K. L is [batch, heads, s] in fp32.
#pragma once

#include "kernels/description.hpp"

namespace memest::kernels {

/// Whether sizes are positive, and heads divided evenly among those of keys and values.
bool is_attention(const AttentionShape& shape);

/// Forward: q, k, v, o, lse. Backward: these, then do, dq, dk, dv, and its o and lse must have been
/// made by its forward.
Description describe_attention(const AttentionShape& shape);

/// The forward that a backward follows; its operands are the first of the backward's.
AttentionShape forward_of(AttentionShape shape);

/// In double, one position after the other.
void attention_reference(const AttentionShape& shape, double* const* operands);

/// The rows of a head in [batch, s, heads, dim] of one sequence.
template <class T>
struct HeadRows {
  T* first = nullptr;
  std::int64_t stride = 0;
  std::int64_t dim = 0;

  [[nodiscard]] T* row(std::int64_t position) const { return first + position * stride; }
};

/// Operands that a call reads and writes for one head of one sequence; heads of a group share k, v
/// and their gradients. Those after lse are of a backward alone.
template <class T>
struct AttentionHead {
  HeadRows<T> q{}, k{}, v{}, o{};
  T* lse = nullptr;
  HeadRows<T> d_o{}, dq{}, dk{}, dv{};
};

template <class T>
AttentionHead<T> attention_head(const AttentionShape& shape, T* const* operands,
                                std::int64_t sequence, std::int64_t head) {
  const auto rows = [&](int operand, std::int64_t heads, std::int64_t dim) {
    const std::int64_t own = head * heads / shape.heads;
    return HeadRows<T>{.first = operands[operand] + (sequence * shape.seq_len * heads + own) * dim,
                       .stride = heads * dim,
                       .dim = dim};
  };
  AttentionHead<T> found{
      .q = rows(0, shape.heads, shape.head_dim),
      .k = rows(1, shape.kv_heads, shape.head_dim),
      .v = rows(2, shape.kv_heads, shape.value_head_dim),
      .o = rows(3, shape.heads, shape.value_head_dim),
      .lse = operands[4] + (sequence * shape.heads + head) * shape.seq_len,
  };
  if (shape.pass == KernelPass::backward) {
    found.d_o = rows(5, shape.heads, shape.value_head_dim);
    found.dq = rows(6, shape.heads, shape.head_dim);
    found.dk = rows(7, shape.kv_heads, shape.head_dim);
    found.dv = rows(8, shape.kv_heads, shape.value_head_dim);
  }
  return found;
}

}  // namespace memest::kernels
