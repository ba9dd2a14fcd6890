// An operation with its autograd rule: what it reads, writes and keeps for its backward pass, and
// what both passes cost.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "memest/graph/tensor.hpp"

namespace memest {

/// The field's classes of operations, by what bounds them.
enum class OpClass : std::uint8_t { contraction, normalization, elementwise, movement, collective };

enum class OpKind : std::uint8_t {
  linear,  // contraction
  batched_matmul,
  attention,  // fused attention: flash, efficient, cuDNN, math
  softmax,    // normalization
  layernorm,
  rmsnorm,
  cross_entropy,
  mean_square,
  activation,  // elementwise
  dropout,
  add,
  multiply,
  scale,
  cast,
  mask,
  rotary,
  embedding,  // movement
  copy
};

OpClass class_of(OpKind kind);
/// "linear", "batched-matmul", ...
std::string_view name_of(OpKind kind);
std::string_view name_of(OpClass op_class);

/// What one pass of an operation computes and moves.
struct Work {
  Expr flops;  ///< 2·m·n·k of contractions (an attention's by torch's FlopCounterMode, no causal
               ///< halving); zero for the rest
  Expr bytes;  ///< read and written once, as the kernel would without cache misses

  friend bool operator==(const Work&, const Work&) = default;
};

struct Op {
  OpKind kind = OpKind::linear;
  std::string_view
      name;  ///< a literal: "q_proj"; the casts and copies that feed an op share its name
  std::vector<TensorId> inputs;  ///< parameters included
  std::vector<TensorId> outputs;
  std::vector<TensorId> saved;            ///< kept until this op's backward has run
  std::vector<TensorId> forward_scratch;  ///< alive during the forward only
  std::vector<TensorId>
      backward_scratch;  ///< alive during the backward only, beside saved tensors and gradients
  Work forward;
  Work backward;
  DType compute = DType::fp32;  ///< operand type of a contraction: selects the peak rate
  bool attention_core =
      false;  ///< scores, softmax, dropout, values: what selective recompute runs again
  bool causal =
      false;  ///< an attention contraction whose masked half some conventions do not count

  friend bool operator==(const Op&, const Op&) = default;
};

}  // namespace memest
