// `parallelism`, `hardware` and `budget`.
#pragma once

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "value.hpp"

namespace memest {

/// The sections as written; null where one is left out.
struct ClusterSections {
  const Value* parallelism = nullptr;
  const Value* hardware = nullptr;
};

/// Fills parallelism and hardware of `job`, which must agree on how many GPUs there are.
void read_cluster(const ClusterSections& sections, Job& job, Diagnostics& diagnostics);

/// Where `fsdp.reshard_after_forward` is left out, torchtitan's own word holds: `default`, all
/// units but the last, and under a pipeline none. Asks for `job.training`.
void settle_resharding(const Value* parallelism, Job& job);

Budget read_budget(const Value* budget);

}  // namespace memest
