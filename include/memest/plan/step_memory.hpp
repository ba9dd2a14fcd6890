// A job's step as it runs: graph, timeline and its replay under the memory of the job's GPU.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "memest/graph/graph.hpp"
#include "memest/memory/step_replay.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// The answer to every question about a job that neither trains nor infers.
inline constexpr const char* kRunsNothing =
    "the spec describes a model without training or inference";

/// That about one whose recompute is a budget (recompute_budget.hpp).
inline constexpr const char* kBudgetOpen =
    "no plan of checkpoints stands in the place of the budget of recompute";

struct StepMemory {
  Graph graph;
  Timeline timeline;
  StepReplay replay;
};

/// The allocator's device: what the driver reports, less what stands outside the allocator (the
/// CUDA context, NCCL's buffers), or the spec's own limit, of which nothing else is taken.
ReplayDevice replay_device_of(const Job& job);

/// The timeline of one of `job`'s ranks and its replay, or why there is none. Throws OverflowError.
std::variant<StepMemory, Unavailable> step_memory_of(const Job& job, JobRank rank = {});
/// As above, with `graph`, of that job and rank of its pipeline, lowered already.
std::variant<StepMemory, Unavailable> step_memory_of(Graph graph, const Job& job, JobRank rank);

/// The data rank of a stage whose memory stands for all in an estimate. Throws OverflowError.
std::int64_t worst_data_rank(const Job& job, std::int64_t pipeline_rank);

/// Names what makes the storage, and when: "layer 3 of 32, q_proj, out, in step 2's forward".
std::string moment_name(const StepMemory& memory, StorageId storage);
/// As above, for the storage that an event of the timeline allocates.
std::string moment_of_event(const StepMemory& memory, std::uint32_t event);

}  // namespace memest
