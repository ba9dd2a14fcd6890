// A tensor of the graph: a shape in symbols, an element type, a role, and the storage that it lives
// in.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "memest/spec/dtype.hpp"
#include "memest/symbolic/expr.hpp"

namespace memest {

Expr elements_of(const std::vector<Expr>& shape);

/// Index of a tensor within its block.
using TensorId = std::uint32_t;

enum class Role : std::uint8_t {
  parameter,
  cast_parameter,  ///< autocast's copy of a parameter: kept in its cache from the forward to the
                   ///< end of the backward
  input,           ///< comes from outside the block
  activation,
  gradient,
  buffer,
  workspace  ///< lives within one pass of one op
};

/// The part of a tensor in its layer's key-value cache: the keys or values held before a decoding
/// pass, which the cache lets go, or those that it holds from then on. In a prompt's pass there are
/// none before.
enum class CachePart : std::uint8_t { none, before, after };

struct Tensor {
  std::string_view op;      ///< a literal: the op that makes it, or whose parameter it is: "q_proj"
  std::string_view name;    ///< a literal: "out", "weight", "log-sum-exp"; unique within its op
  std::vector<Expr> shape;  ///< elements of each dimension
  DType dtype = DType::fp32;
  Role role = Role::activation;
  TensorId storage = 0;    ///< itself, or the tensor whose storage this one views
  bool frozen = false;     ///< a parameter that is not trained
  bool unstepped = false;  ///< its gradient is no optimizer's: summed over the steps, it stays
  std::int64_t bits = 0;   ///< of an element of a parameter kept in codes; 0: as `dtype` has it
  /// Made once for the whole model outside the block, known by its name (cos and sin tables, token
  /// ids, a tied weight): the block that first keeps it counts it.
  bool shared = false;
  /// Made in this block and known to later ones by its name, until one of their ops releases it.
  bool outlives_block = false;
  /// Part of what the model answers (a key-value cache): the caller's to drop.
  bool answered = false;
  CachePart cache_part = CachePart::none;
  /// Made only where a gradient is wanted (log-sum-exp of the memory-efficient and of the cuDNN
  /// kernel).
  bool for_backward = false;
  /// Results made from it keep it by its place in autograd's graph, though no backward reads it: as
  /// long as the program names those, or where no graph is kept to its own last use.
  bool held_by_graph = false;
  /// Made only where something is dropped out (flash attention's second seed).
  bool for_dropout = false;
  /// A DTensor, of which this is the rank's part or the whole: so are its gradients.
  bool distributed = false;
  /// A parameter whose gradient arrives as a partial sum or whole, and takes the form of the
  /// parameter's shard when it is reduced.
  bool gradient_is_relaid = false;
  /// The previous block keeps this storage already (its last op saves its result): this block
  /// counts nothing for it.
  bool kept_before = false;

  [[nodiscard]] Expr elements() const;
  [[nodiscard]] Expr bytes() const;

  friend bool operator==(const Tensor&, const Tensor&) = default;
};

}  // namespace memest
