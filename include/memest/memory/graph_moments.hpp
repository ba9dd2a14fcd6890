// What ledgers over one graph share: what is alive while each of its operations runs. It depends on
// the graph alone, so a search works it out once for all recomputes, shards and pipelines.
#pragma once

#include <memory>

#include "memest/graph/graph.hpp"

namespace memest {

class GraphMoments {
 public:
  /// `graph` outlives this.
  explicit GraphMoments(const Graph& graph);
  ~GraphMoments();
  GraphMoments(const GraphMoments&) = delete;
  GraphMoments& operator=(const GraphMoments&) = delete;

 private:
  friend class LedgerMoments;
  struct Made;
  std::unique_ptr<Made> made_;
};

}  // namespace memest
