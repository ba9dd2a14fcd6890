// torchtitan's demands on a job, and the parts of torchtitan that memest has.
#pragma once

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Refuses, at the key that asks for it, what the implementation torchtitan does not run. `root` is
/// the spec.
void check_torchtitan(const Value& root, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
