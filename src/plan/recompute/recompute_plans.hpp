// The plans of checkpoints that a program has words for.
#pragma once

#include <vector>

#include "memest/spec/job.hpp"

namespace memest {

/// Plans of one kind, the least time first.
struct RecomputeFamily {
  std::vector<Recompute> plans;
  /// Each takes less memory than the one before: the search halves. Else it looks at one by one.
  bool falls = true;
};

/// Those of the program of `job`; single layers of a net are not among them.
std::vector<RecomputeFamily> recompute_families(const Job& job);

}  // namespace memest
