// The data loader of a rank in the host's memory.
#pragma once

#include <vector>

#include "memest/memory/host_memory.hpp"

namespace memest {

/// The most that the loader of `job`, which names one, holds at any moment; empty where the spec
/// says no size. Throws OverflowError.
std::vector<HostTerm> loader_terms(const Job& job);

}  // namespace memest
