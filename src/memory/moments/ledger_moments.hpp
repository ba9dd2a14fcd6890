// The moments of a graph's blocks, each worked out once.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "memest/memory/graph_moments.hpp"
#include "memory/moments/moments.hpp"

namespace memest {

class LedgerMoments {
 public:
  /// `shared`: those that other ledgers have made and will ask for; null: own ones. `graph`
  /// outlives this.
  LedgerMoments(const Graph& graph, GraphMoments* shared);

  [[nodiscard]] const Graph& graph() const { return graph_; }
  /// The moments of one of the graph's blocks.
  [[nodiscard]] const BlockMoments& of(std::size_t block, BlockPass pass) const;

 private:
  const Graph& graph_;
  GraphMoments* shared_;
  mutable std::vector<GraphMoments::OfBlock*> of_blocks_;  ///< shared ones; null: not asked yet
  mutable std::vector<std::map<BlockPass, BlockMoments>> own_;  ///< by block
};

}  // namespace memest
