// The ring of ring_attention.cpp as a compiled layer runs it: traced through, so that its merging
// is fused, and the keys and values that were gathered are kept for the backward.
#pragma once

#include <cstdint>

#include "graph/lower/attention/fused_core.hpp"

namespace memest {

/// Tensors whose sizes the ring's tensors have.
struct RingShapes {
  TensorId q = 0;
  TensorId k = 0;
  TensorId v = 0;
  TensorId sums = 0;      ///< log-sum-exp
  TensorId pair = 0;      ///< keys and values of a rank
  TensorId gathered = 0;  ///< of all ranks
  TensorId late = 0;      ///< half of the output
  TensorId late_sums = 0;
  bool by_tokens = true;  ///< so keys and values lie, unless they are a single head's
  std::int64_t ranks = 1;
};

/// Writes both passes of `op`, which has its outputs (the output, log-sum-exp, seed, offset) and
/// saves them. Its keys as they are sent and what was gathered become others.
void write_compiled_ring(BlockBuilder& block, const RingShapes& shapes, const FusedCore& core,
                         Op& op);

}  // namespace memest
