// The moments of a graph's blocks, each worked out once.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "memest/memory/graph_moments.hpp"
#include "memory/moments/moments.hpp"

namespace memest {

/// The moments of a block, by how it is run and by the parts that are left out.
using MomentsByPass = std::map<std::pair<BlockPass, SelectiveRecompute>, BlockMoments>;

class LedgerMoments {
 public:
  /// `shared`: those that other ledgers have made and will ask for; null: own ones. `graph`
  /// outlives this. `parts`: those that passes leave out.
  LedgerMoments(const Graph& graph, const std::optional<SelectiveRecompute>& parts,
                GraphMoments* shared);

  [[nodiscard]] const Graph& graph() const { return graph_; }
  /// The moments of one of the graph's blocks.
  [[nodiscard]] const BlockMoments& of(std::size_t block, BlockPass pass) const;

 private:
  const Graph& graph_;
  SelectiveRecompute parts_;
  GraphMoments* shared_;
  mutable std::vector<GraphMoments::OfBlock*> of_blocks_;  ///< shared ones; null: not asked yet
  mutable std::vector<MomentsByPass> own_;                 ///< by block
};

}  // namespace memest
