// The replay of a job's steps, under the memory that its GPU offers.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "memest/memory/stage_form.hpp"
#include "memest/plan/estimate.hpp"

namespace memest {

/// More than any GPU has, and little enough for two expandable segments, of 9/8 of it each, in the
/// address space that the prediction hands out.
inline constexpr Bytes kMostReplayed{std::int64_t{4} << 40};
inline constexpr const char* kBeyondReplay =
    "a replay of more than 4 TiB on one GPU is not available";

/// Whether an operation of the graph makes a tensor of more than can be replayed. Kernels would go
/// over it in any number of pieces.
bool is_beyond_replay(const Graph& graph);

/// Replays one of the job's ranks, or says why there is no timeline. Throws OverflowError.
std::variant<ReplayedSteps, Unavailable> replay_job(const Graph& graph, const Job& job,
                                                    JobRank rank);

/// As above, from steps that are replayed already on the job's own device.
std::variant<ReplayedSteps, Unavailable> replayed_steps_of(StepMemory step, const Job& job);

/// The device at its tightest: with the most that may stand outside the allocator, and as much less
/// as recorded runs reserved more than their replay.
ReplayDevice tightest_device_of(const Job& job);

/// And at its roomiest: with the least outside the allocator, and as much more as recorded runs
/// reserved less than their replay.
ReplayDevice roomiest_device_of(const Job& job);

/// The most that the program holds at once: every allocator takes as much.
Bytes demand_of(const Timeline& timeline);

/// Whether what holds so much at once runs out of memory on the device at its roomiest, whatever
/// its allocator does.
bool is_hopeless(Bytes demand, const Job& job);
/// Whether it does so at its tightest: then it does not fit, as `judge` says that.
bool cannot_fit(Bytes demand, const Job& job);

/// Does not fit where the replay runs out of memory on the device at its roomiest, fits where it
/// does not at its tightest; else too close to call.
Verdict judge_replay(const ReplayedSteps& steps, const Job& job);

struct SureRun {
  bool runs = false;
  std::optional<Bytes> reserved;  ///< at most; absent where memory was short
};
/// Whether `timeline` surely runs: what `judge` calls fits, without a replay that goes to its end
/// where it does not.
SureRun surely_runs(const Timeline& timeline, const Job& job);

/// The verdict on one run of `timeline` under the GPU's memory.
Verdict judge_run(const Timeline& timeline, const StepReplay& run, const Job& job);

/// Whether the memory made the run retry or ended it.
bool was_pressed(const StepReplay& run);

/// Bytes of the device that an allocator may reserve.
Bytes room_of(const ReplayDevice& device);

/// The replay with all the memory that the steps ask for.
StepReplay replay_unpressed(const Timeline& timeline, const Job& job);

/// Bytes that the steps reserve with all the memory that they ask for; none if more than the
/// prediction hands out.
std::optional<Bytes> reserved_unpressed(const Timeline& timeline, const Job& job);

/// Whether a rank that reserves so much unpressed fits the device at its tightest without being
/// pressed there.
bool fits_freely(Bytes reserved, const Job& job);

/// Bytes of the device that a rank takes which reserves so much.
struct DeviceBytes {
  Bytes expected;
  Bytes low;
  Bytes high;
};
DeviceBytes device_bytes(Bytes reserved, const Margin& margin, const OutsideBytes& outside);

/// `low` of device_bytes(), held against the device: what is too close to call may run there by
/// giving segments back, so at its least it takes no more than there is.
Bytes least_taken(Bytes low, Verdict verdict, const Capacity& capacity,
                  const OutsideBytes& outside);

}  // namespace memest
