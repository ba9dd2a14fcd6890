// Whether a framework splits a model as `parallelism` asks.
#pragma once

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Refuses by name what the job's implementation does not have, at its key of `written`, and
/// replicas that do not divide the ranks.
void check_parallelism(const Value* written, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
