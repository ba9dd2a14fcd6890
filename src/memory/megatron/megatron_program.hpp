// Megatron-core's own training program around its own model, on one rank.
#pragma once

#include <optional>

#include "memest/graph/kernel_scratch.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/spec/job.hpp"
#include "memory/engine/engine.hpp"

namespace memest {

/// Whether Megatron's own wrappers share the job's states.
bool runs_megatron(const Job& job);

/// A rank of Megatron's model, whoever wraps it.
struct MegatronRank {
  const Graph& graph;
  const Job& job;
  JobRank rank;
  EngineSettings settings;  ///< without hooks
  std::optional<LaunchDevice> device;
};
/// The job's first steps, event by event.
Timeline write_megatron(const MegatronRank& of);

}  // namespace memest
