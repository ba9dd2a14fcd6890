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

/// A region, or the part of one that a block is where the whole model is compiled.
struct RegionPlace {
  RegionCheckpoint checkpoint = RegionCheckpoint::around;
  RegionInput input = RegionInput::argument;
};

/// `eager` as one compiled region, or as a part of one.
Block compiled(Block eager, RegionPlace place, const Float8Region& float8 = {});

}  // namespace memest
