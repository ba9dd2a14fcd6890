// Which stretches of the forward order are recomputed, and from what.
#pragma once

#include <cstdint>
#include <vector>

#include "forward_order.hpp"
#include "memest/spec/training.hpp"

namespace memest {

/// Ops [begin, end) of the forward order that keep nothing but their inputs.
struct Checkpoint {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t first_kept = 0;  ///< the first op whose node keeps something; `end` if none
  std::uint32_t last_kept = 0;   ///< the last one, where torch.utils.checkpoint stops early
  std::vector<Cell> inputs;      ///< a block's own input first
};

struct Checkpoints {
  std::vector<Checkpoint> list;  ///< in forward order, disjoint
  bool reentrant = false;
};

Checkpoints checkpoints_of(const Graph& graph, const ForwardOrder& order,
                           const Recompute& recompute);

}  // namespace memest
