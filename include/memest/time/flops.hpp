// FLOPs of a step, under every convention that the field quotes, each by name. A multiply-add is
// two FLOPs.
#pragma once

#include <cstdint>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// One rank's FLOPs of one step (all micro-steps), or of one forward or one generate() where
/// nothing is trained: then the conventions count a third, 2·Φ a token for 6·Φ. Executed FLOPs are
/// the graph's, a rank's or a stage's; the conventions are the whole model's, divided by the ranks
/// that share it (tensor · pipeline · context) and rounded down.
struct FlopsEstimate {
  Flops forward;   ///< as torch's FlopCounterMode counts: no causal halving
  Flops backward;  ///< as torch's FlopCounterMode counts; recompute counts here
  Flops model;     ///< 6·Φ·tokens, of experts the active ones
  Flops palm;      ///< 6·Φ·tokens + 12·L·a·d·s a token
  Flops megatron;  ///< matmuls, and attention with the causal half only
  /// FLOPs of executed() that kernels compute; HFU counts them. Causal fused attention leaves out
  /// the half of its scores above the diagonal.
  Flops computed;
  /// FLOPs of `computed` that MFU counts: one forward and one backward over the step's tokens,
  /// nothing recomputed, neither by checkpoints nor inside fused attention's backward.
  Flops required;

  [[nodiscard]] Flops executed() const { return forward + backward; }
};

/// `job.training` or `job.inference` is present. `graph` is the whole model's, or that of a rank's
/// stages.
FlopsEstimate count_flops(const Graph& graph, const Job& job);

/// The mean over the pipeline's ranks of what was counted of the whole model.
FlopsEstimate mean_of_stages(const FlopsEstimate& whole, std::int64_t stages);

}  // namespace memest
