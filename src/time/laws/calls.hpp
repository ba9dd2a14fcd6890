// An operation as the kernel calls that time laws price.
#pragma once

#include "memest/graph/graph.hpp"
#include "memest/spec/training.hpp"
#include "memest/time/work.hpp"

namespace memest {

/// Fills in the calls of both passes; none for an operation that runs no kernel.
/// `pass` says which kernel computes what fused attention there is, and which products run in fp8.
void add_calls(OpWork& work, const Block& block, const Bindings& sizes, const ForwardSpec& pass);

}  // namespace memest
