// Beside what torch.autograd.graph.save_on_cpu was recorded: whatever else a job asks for is
// refused by name.
#pragma once

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// `root` is the spec.
void check_offload_activations(const Value& root, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
