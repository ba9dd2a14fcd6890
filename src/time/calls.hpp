// The contractions of an operation as the kernel calls that time laws price.
#pragma once

#include "memest/graph/graph.hpp"
#include "memest/time/work.hpp"

namespace memest {

/// Fills in the calls of both passes; none for an operation that contracts nothing.
void add_calls(OpWork& work, const Block& block, const Bindings& sizes);

}  // namespace memest
