// The bytes alive at the moments of blocks, kept for all the ledgers that ask for them.
#pragma once

#include <memory>

#include "memest/graph/graph.hpp"

namespace memest {

/// Graphs of one model under many layouts have most blocks in common: equal blocks share theirs,
/// whichever graph they stand in. Several threads may ask at once.
class GraphMoments {
 public:
  GraphMoments();
  ~GraphMoments();
  GraphMoments(const GraphMoments&) = delete;
  GraphMoments& operator=(const GraphMoments&) = delete;
  GraphMoments(GraphMoments&&) = delete;
  GraphMoments& operator=(GraphMoments&&) = delete;

 private:
  friend class LedgerMoments;
  struct OfBlock;
  struct Made;

  std::unique_ptr<Made> made_;
};

}  // namespace memest
