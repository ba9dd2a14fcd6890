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

/// gather keeps the tensor that it reads, whose sizes its backward asks for; others do not.
enum class Indexing { others, gather };
/// A tensor read at indices, which are kept.
struct Indexed {
  TensorId x = 0;
  TensorId indices = 0;
  Indexing by = Indexing::others;
};
/// x in another form: its gradient is a tensor like it, seen in its own shape where x was.
TensorId moved(BlockBuilder& block, const Made& result, const Indexed& read);

/// A kernel of `kind` over all of `flags`: how many are set (count_flags), or where (select_flags).
KernelLaunch search_of_flags(const BlockBuilder& block, KernelLaunch::Kind kind, TensorId flags);
/// The places of flags that are set, int64 of [count] (torch.nonzero of one dimension).
TensorId places_of_flags(BlockBuilder& block, Place place, TensorId flags, const Expr& count);

struct RowsAt {
  Expr count;           ///< of indices
  Expr rows;            ///< of x
  bool narrow = false;  ///< indices of 32 bits, which both passes widen
};
/// Rows of x: x[indices], whose gradient is added up row by row.
TensorId rows_at(BlockBuilder& block, const Made& result, const RowsAt& sizes, const Indexed& read);
/// `into`[indices] = x, in place: the gradient of x is read at the indices.
struct PutRows {
  Place place;
  TensorId into = 0;  ///< without a gradient of its own
  Indexed rows;
  bool narrow = false;  ///< as above
};
TensorId put_rows(BlockBuilder& block, const PutRows& part);

}  // namespace memest
