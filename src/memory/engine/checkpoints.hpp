// Which stretches of the forward order are recomputed, and from what.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/spec/framework.hpp"
#include "memest/spec/training.hpp"
#include "memory/engine/forward_order.hpp"

namespace memest {

/// Ops [begin, end) of the forward order that keep nothing but their inputs.
struct Checkpoint {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t first_kept = 0;  ///< the first op whose node keeps something; `end` if none
  std::uint32_t last_kept = 0;   ///< the last one, where torch.utils.checkpoint stops early
  std::vector<Cell> inputs;      ///< a block's own input first
  std::int64_t input_bytes = 0;  ///< of the first one, where it is a block's
};

struct Checkpoints {
  std::vector<Checkpoint> list;  ///< in forward order, disjoint
  bool reentrant = false;
  /// All arguments are saved by the checkpoint's node (Megatron), not bound to its function.
  bool saves_arguments = false;
  /// A first argument is kept as this rank's share, over so many ranks; 1: whole.
  std::int64_t shares = 1;
  bool stops_early = true;         ///< behind what is saved last
  bool keeps_selectively = false;  ///< the outputs of ops that say so are not made again
};

/// The checkpoints that `recompute` means under `rule`. Around a compiled layer one recomputes it
/// whole; torchtitan's, compiled with their layer, end with what the backward reads.
Checkpoints checkpoints_of(const Graph& graph, const ForwardOrder& order,
                           const Recompute& recompute, CheckpointRule rule);

/// As above, for tensor_parallel.checkpoint over `ranks` tensor-parallel ranks.
Checkpoints megatron_checkpoints_of(const Graph& graph, const ForwardOrder& order,
                                    const Recompute& recompute, std::int64_t ranks);

}  // namespace memest
