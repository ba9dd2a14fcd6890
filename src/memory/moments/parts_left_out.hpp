// The parts of a block that recompute leaves out of what the forward keeps: each in a checkpoint of
// its own, or thrown away where its last reader has run (graph/remade.hpp).
#pragma once

#include <cstddef>
#include <vector>

#include "memest/graph/graph.hpp"

namespace memest {

/// Operations [begin, end) of a block.
struct PartLeftOut {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t last = 0;  ///< its tensors are there while this operation runs: they go behind it
  std::vector<TensorId> results = {};  ///< storages that go though others saved them; none of a
                                       ///< checkpoint

  [[nodiscard]] bool is_remade() const { return last >= end; }
  [[nodiscard]] bool has(std::size_t op) const { return begin <= op && op < end; }
};

/// Those of `parts`, in forward order.
std::vector<PartLeftOut> parts_left_out(const Block& block, const SelectiveRecompute& parts);

/// Inputs of an operation of the part that no operation of it makes: these stay.
std::vector<TensorId> entering(const Block& block, const PartLeftOut& part, const Op& op);

}  // namespace memest
