// Parameters of units that FSDP all-gathers, as far as formulas go.
#pragma once

#include <cstddef>

#include "memest/graph/graph.hpp"
#include "memest/symbolic/expr.hpp"

namespace memest {

/// Parameters that are all-gathered, in elements.
struct GatheredElements {
  Expr all;
  Expr in_fp8 = {};  ///< those of them that the ranks cast before
  /// Bytes of the most that casting them one by one takes, if no rank had a share but all.
  Expr casting = {};

  GatheredElements& operator+=(const GatheredElements& other);
  GatheredElements& operator-=(const GatheredElements& other);
  friend GatheredElements operator+(GatheredElements left, const GatheredElements& right) {
    return left += right;
  }
  [[nodiscard]] bool is_zero() const { return all.is_zero(); }
};

/// The operations of a block from the first to behind the last that exchanges something between
/// expert ranks, and the elements of the weights that they read.
struct ExpertOps {
  std::size_t begin = 0;
  std::size_t end = 0;
  Expr elements;
  Expr last;  ///< of the weight that is read last
};
ExpertOps expert_ops_of(const Block& block);

/// The block's own parameters.
GatheredElements gathered_elements(const Graph& graph, const Block& block);
/// `count` such units, cast one after another.
GatheredElements times(std::int64_t count, const GatheredElements& unit);

}  // namespace memest
