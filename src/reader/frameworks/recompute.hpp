// Checks what a program has words for of the layers that it recomputes.
#pragma once

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Refuses, at the key that asks for it, recompute that the implementation has no words for, and
/// layers that the model does not have. `root` is the spec.
void check_recompute(const Value& root, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
