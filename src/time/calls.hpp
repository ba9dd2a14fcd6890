// An operation as the kernel calls that time laws price.
#pragma once

#include "memest/graph/graph.hpp"
#include "memest/spec/training.hpp"
#include "memest/time/work.hpp"

namespace memest {

/// Fills in the calls of both passes; none for an operation that runs no kernel.
/// `attention` computes what fused attention there is.
void add_calls(OpWork& work, const Block& block, const Bindings& sizes, AttentionKernel attention);

}  // namespace memest
