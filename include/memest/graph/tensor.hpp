// A tensor of the graph: a shape in symbols, an element type, a role, and the storage that it lives in.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "memest/spec/dtype.hpp"
#include "memest/symbolic/expr.hpp"

namespace memest {

/// Index of a tensor within its block.
using TensorId = std::uint32_t;

enum class Role : std::uint8_t { parameter, input, activation, gradient, buffer, workspace };

struct Tensor {
  std::string_view name;    ///< a literal: "q_proj.out"
  std::vector<Expr> shape;  ///< elements of each dimension
  DType dtype = DType::fp32;
  Role role = Role::activation;
  TensorId storage = 0;     ///< itself, or the tensor whose storage this one views
  /// Made once for the whole model outside the block (cos and sin tables, causal mask): the block that first keeps it counts it.
  bool shared = false;

  [[nodiscard]] Expr elements() const;
  [[nodiscard]] Expr bytes() const;
};

}  // namespace memest
