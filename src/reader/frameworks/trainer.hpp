// Keys in which the transformers Trainer's loop leaves no choice.
#pragma once

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Refuses, at the key that asks for it, what the Trainer does not run. `root` is the spec.
void check_trainer(const Value& root, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
