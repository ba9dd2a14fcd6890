// `parallelism`, `hardware` and `budget`.
#pragma once

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// The sections as written; null where one is left out.
struct ClusterSections {
  const Value* parallelism = nullptr;
  const Value* hardware = nullptr;
};

/// Fills parallelism and hardware of `job`, which must agree on how many GPUs there are.
void read_cluster(const ClusterSections& sections, Job& job, Diagnostics& diagnostics);

Budget read_budget(const Value* budget);

}  // namespace memest
