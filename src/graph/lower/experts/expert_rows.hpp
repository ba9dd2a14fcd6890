// Rows of tokens on their way to the experts, and back.
#pragma once

#include "graph/lower/ops/block_builder.hpp"

namespace memest {

/// Rows of `x` in another order, `rows` of them.
TensorId reordered_rows(BlockBuilder& block, Place place, TensorId x, const Expr& rows);

/// Rows of `x` that a message sends to other ranks, where there are so many; another sends their
/// gradients back.
struct SentRows {
  Place place;
  TensorId x = 0;
  Expr rows;
};
struct Messages {
  Message forward;
  Message backward;
};
TensorId sent_rows(BlockBuilder& block, const SentRows& sent, const Messages& messages);

/// Rows of `x` go to the ranks of their experts, or come back (all_to_all_single), and `rows` are
/// there; their gradients take the way back.
TensorId exchanged_rows(BlockBuilder& block, Place place, TensorId x, const Expr& rows);

}  // namespace memest
