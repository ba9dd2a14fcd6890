// Which block and op made a storage, in words.
#pragma once

#include <string>

#include "memest/graph/graph.hpp"
#include "memest/memory/timeline.hpp"

namespace memest {

/// Names what made a storage; one that no block makes (a parameter, the batch) has a tensor alone.
struct StorageMaker {
  std::string block;   ///< "layer 3 of 32"
  std::string op;      ///< the tensor's own: "q_proj"
  std::string tensor;  ///< "out", "gradient of out", "out (recomputed)"

  friend bool operator==(const StorageMaker&, const StorageMaker&) = default;
};

StorageMaker maker_of(const Timeline& timeline, const Graph& graph, StorageId storage);

}  // namespace memest
