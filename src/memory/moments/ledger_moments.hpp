// The moments of a graph's blocks, each worked out once.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "memest/memory/graph_moments.hpp"
#include "memory/moments/moments.hpp"

namespace memest {

class LedgerMoments {
 public:
  /// `shared`: those that other ledgers have made and will ask for; null: own ones.
  LedgerMoments(const Graph& graph, GraphMoments* shared);

  [[nodiscard]] const Graph& graph() const { return graph_; }
  /// The moments of one of the graph's blocks.
  [[nodiscard]] const BlockMoments& of(std::size_t block, BlockPass pass) const;

 private:
  const Graph& graph_;
  std::unique_ptr<GraphMoments> own_;
  GraphMoments* shared_;
  mutable std::vector<GraphMoments::OfBlock*> of_blocks_;  ///< of the graph; null: not asked yet
};

}  // namespace memest
