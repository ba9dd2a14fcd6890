// Megatron-core's demands on a job, and the parts of Megatron-core that memest has.
#pragma once

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Refuses, at the key that asks for it, what the implementation megatron does not run, and what
/// only it does where another runs. `root` is the spec.
void check_megatron(const Value& root, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
