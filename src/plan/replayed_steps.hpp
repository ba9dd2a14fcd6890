// The replay of a job's steps, under the memory that its GPU offers.
#pragma once

#include <cstdint>
#include <optional>
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

/// The device at its tightest: with the most that may stand outside the allocator, and as much less
/// as recorded runs reserved more than their replay.
ReplayDevice tightest_device_of(const Job& job);

/// does-not-fit exactly where the replay runs out of memory; too close to call where it would with
/// on the device at its tightest.
Verdict judge(const ReplayedSteps& steps, const Job& job);

struct SureRun {
  bool runs = false;
  std::optional<Bytes> reserved;  ///< at most; absent where memory was short
};
/// Whether `timeline` surely runs: what `judge` calls fits, without a replay that goes to its end
/// where it does not.
SureRun surely_runs(const Timeline& timeline, const Job& job);

}  // namespace memest
