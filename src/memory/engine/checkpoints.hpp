// Which stretches of the forward order are recomputed, and from what.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/spec/checkpoint_plan.hpp"
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
  CheckpointPlan plan;
  std::vector<Checkpoint> list;  ///< in forward order, disjoint
  /// A first argument is kept as this rank's share, over so many ranks; 1: whole.
  std::int64_t shares = 1;
};

/// The checkpoints that `plan` means, over `tensor_ranks` where it distributes their arguments.
Checkpoints checkpoints_of(const Graph& graph, const ForwardOrder& order,
                           const CheckpointPlan& plan, std::int64_t tensor_ranks);

}  // namespace memest
