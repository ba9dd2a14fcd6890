// The replay of a job's steps, under the memory that its GPU offers.
#pragma once

#include <cstdint>
#include <variant>

#include "memest/plan/estimate.hpp"

namespace memest {

/// More than any GPU has, and little enough for two expandable segments, of 9/8 of it each, in the
/// address space that the prediction hands out.
inline constexpr Bytes kMostReplayed{std::int64_t{4} << 40};
inline constexpr const char* kBeyondReplay =
    "a replay of more than 4 TiB on one GPU is not available";

/// Of one rank of the job's pipeline, or why there is no timeline. Throws OverflowError.
std::variant<ReplayedSteps, Unavailable> replay_job(const Graph& graph, const Job& job,
                                                    std::int64_t pipeline_rank);

/// does-not-fit exactly where the replay runs out of memory; too close to call where it would with
/// as much less memory as recorded runs reserved more than their replay.
Verdict judge(const ReplayedSteps& steps, const Job& job);

}  // namespace memest
