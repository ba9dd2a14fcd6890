// torch.compile of a block: the operations of eager PyTorch become library kernels and the fused
// kernels between them, with what the partitioner keeps for the backward (PyTorch 2.11, Inductor).
#pragma once

#include "graph/lower/compile/float8_in_region.hpp"
#include "memest/graph/graph.hpp"

namespace memest {

/// Where a checkpoint of the region stands.
enum class RegionCheckpoint : std::uint8_t {
  around,  ///< outside: it runs the compiled forward again (transformers)
  inside   ///< compiled with it: the backward computes again what it reads (torchtitan)
};

/// `eager` as one compiled region.
Block compiled(Block eager, RegionCheckpoint checkpoint, const Float8Region& float8 = {});

}  // namespace memest
