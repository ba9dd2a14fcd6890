// Kernels bound by memory that operations other than contractions run.
#pragma once

#include <vector>

#include "memest/time/work.hpp"

namespace memest {

/// `calls` become the one of `shape` over so many bytes; of none they stay.
void add_stream(std::vector<KernelShape>& calls, StreamShape shape, double bytes);

/// Both passes of the operation as one kernel each.
void add_streams(OpWork& work, const Block& block, const Bindings& sizes,
                 const Implementation& implementation);

}  // namespace memest
