// The operations that route tokens to experts: choices, orders, and rows read at indices.
#pragma once

#include <vector>

#include "graph/lower/ops/operations.hpp"

namespace memest {

/// A tensor without gradient that depends on `inputs`.
TensorId made(BlockBuilder& block, const Made& result, const std::vector<TensorId>& inputs = {});

/// Two such tensors, of which `second` is made after `first`.
struct Pair {
  TensorId first = 0;
  TensorId second = 0;
};
Pair pair_of(BlockBuilder& block, const Made& first, const Made& second, TensorId x);
/// Values of `x` (its largest), and their places, which are kept: the gradient is a tensor like
/// `x`.
Pair taken_of(BlockBuilder& block, const Made& values, const Made& places, TensorId x);

/// `x` in another form, read at `indices`, which are kept: its gradient is a tensor like it, seen
/// in its own shape where `x` was. gather keeps `x` too, whose sizes its backward asks for.
enum class Reading { others, gather };
TensorId moved(BlockBuilder& block, const Made& result, TensorId x, TensorId indices,
               Reading reading = Reading::others);

/// Rows of `x` at `indices`, which are kept: x[indices], whose gradient is added up row by row.
struct RowsAt {
  Expr count;  ///< of indices
  Expr rows;   ///< of x
};
TensorId rows_at(BlockBuilder& block, const Made& result, const RowsAt& sizes, TensorId x,
                 TensorId indices);

}  // namespace memest
