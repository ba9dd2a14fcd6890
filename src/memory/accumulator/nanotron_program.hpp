// nanotron's DistributedTrainer around its own model, on one rank.
#pragma once

#include <optional>

#include "memest/graph/kernel_scratch.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// The job's first steps, event by event.
Timeline write_nanotron(const Graph& graph, const Job& job, JobRank rank,
                        const std::optional<LaunchDevice>& device);

}  // namespace memest
