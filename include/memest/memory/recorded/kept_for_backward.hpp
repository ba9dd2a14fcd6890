// The memory that a recorded step's forward leaves for its backward, by the module that made it:
// the tensors that autograd saves, and what the program itself still holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "memest/spec/allocator_trace.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// A module's own allocations, without those of its parts.
struct ModuleUse {
  std::size_t module = 0;  ///< index into AllocatorTrace::modules; 0: outside of all
  std::int64_t allocations = 0;
  Bytes bytes;  ///< in blocks of 512 B
};

struct KeptForBackward {
  std::string phase;               ///< "step2.forward"; empty where no forward has modules
  Bytes bytes;                     ///< of all that was allocated in it and is there at its end
  std::vector<ModuleUse> modules;  ///< the largest first; of equals the first in the program
};

/// The second step whose forward has modules is told, or the first where there is no second; of
/// several micro-batches the first. A forward begins where the phase before it ends; that of a
/// program's first step with the first allocation in a module.
KeptForBackward kept_for_backward(const AllocatorTrace& trace);

}  // namespace memest
