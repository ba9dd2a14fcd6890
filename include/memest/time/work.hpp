// The work of one training step as plain numbers: a graph's formulas evaluated once for a
// micro-batch and a recompute policy, then timed on any number of GPUs in about a microsecond each.
// Doubles: exact FLOPs are counted in flops.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/gpu/kernel_shape.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// One execution of one pass of an operation.
struct PassWork {
  double flops = 0;
  double bytes = 0;
};

/// A message of one pass, its bytes as a number (see Message).
struct MessageWork {
  MessageKind kind = MessageKind::all_reduce;
  RankGroup group = RankGroup::tensor;
  double bytes = 0;
  double times = 1;
  bool asynchronous = false;
  TokenRouting routing = {};
};

/// Kernels and messages that the host launches for one execution of an op.
struct OpLaunches {
  double forward = 0;
  double backward = 0;
};

/// Which sums of autograd's these are, beside the graph's operations.
enum class GradientSums : std::uint8_t {
  none,      ///< an operation of the graph
  of_block,  ///< of tensors that several operations read
  of_ends    ///< of a weight that both ends of the model hold: no stage of a pipeline has both
};

/// An operation over one micro-step of one rank.
struct OpWork {
  std::size_t block = 0;   ///< index into Graph::blocks
  const Op* op = nullptr;  ///< into the graph, which outlives this; of sums a constant
  GradientSums sums = GradientSums::none;
  double executions = 0;      ///< of the forward, and of the backward: one a layer
  double recomputations = 0;  ///< of the forward, inside the backward pass, in a single stage
  double recasts = 0;         ///< the same of its first call alone, which casts its operands
  PassWork forward;
  PassWork backward;
  /// Kernel calls of the passes; empty where no kernel runs.
  std::vector<KernelShape> forward_calls;
  std::vector<KernelShape> backward_calls;
  std::vector<MessageWork> forward_messages;
  std::vector<MessageWork> backward_messages;
  OpLaunches launches;
};

/// The weights of one execution of a block.
struct BlockWeights {
  double all = 0;
  double trained = 0;
  double trained_experts = 0;  ///< of these, what other expert-parallel ranks have others of
};

/// A product of the optimizer step, as often in a step.
struct OptimizerProduct {
  MatmulShape shape;
  double times = 0;
};

/// One rank's step with all layers of the graph, before shards, pipelines and the collectives of
/// data parallelism.
struct StepWork {
  const Graph* graph = nullptr;
  std::vector<OpWork> ops;  ///< of one micro-step, in graph order; behind them sums of gradients
  double micro_steps = 1;
  double units = 1;  ///< layers that ZeRO 3 gathers one after another
  double parameters = 0;
  double trainable = 0;
  double optimizer_bytes = 0;  ///< read and written by one optimizer step over all parameters
  std::vector<OptimizerProduct> optimizer_products;  ///< over all parameters
  double clipping_bytes = 0;          ///< read and written to clip and zero the gradients
  double stream_bytes = 0;            ///< a layer's output, which the next layer reads
  std::vector<BlockWeights> weights;  ///< by block
};

/// `job.training` is present. `graph` outlives the result. Throws OverflowError where a size leaves
/// its range.
StepWork work_of(const Graph& graph, const Job& job);

/// The operations of a forward over the blocks of `order`, without those of the first forward
/// alone. `graph` outlives the result. Throws OverflowError.
std::vector<OpWork> forward_work_of(const Graph& graph, std::span<const BlockRun> order,
                                    const Bindings& sizes, const ForwardSpec& pass);

/// The graph's symbols with the pass's micro-batch and sequence length.
Bindings sizes_of(const Graph& graph, const ForwardSpec& forward);

}  // namespace memest
