// Beside what torch.autograd.graph.save_on_cpu was recorded: whatever else a job asks for is
// refused by name.
#pragma once

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Reads `training.offload_activations` of the section `training`.
void read_activation_offload(const Value& training, TrainingSpec& spec, Diagnostics& diagnostics);

/// `root` is the spec.
/// Refuses, too, what Megatron does not run beside its cpu_offloading, and what nobody has read of
/// it.
void check_offload_activations(const Value& root, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
