// A stage of a job's pipeline replayed: of its data ranks, whose pieces of the parameters differ,
// the one that is worst off. Every answer about a job asks here, so that all look at the same
// ranks.
#pragma once

#include <cstdint>
#include <optional>

#include "memest/plan/estimate.hpp"
#include "memest/plan/step_memory.hpp"

namespace memest {

/// The point at which the replays of a stage's data ranks end.
enum class StageRunEnd : std::uint8_t {
  worst_known,    ///< more of them would change neither the verdict nor whose it is
  first_refusal,  ///< one does not fit: how much it takes is not asked
  first_misfit    ///< one is not sure to fit; too close to call is all else that is not refused at
                  ///< once, whatever it would be
};

/// A rank's steps and their replay on the job's own device.
struct RankSteps {
  Timeline timeline;
  StepReplay replay;
};

struct StageRun {
  DataRanks ranks;
  Verdict verdict = Verdict::fits;  ///< of the worst
  Bytes reserved;        ///< by it: with retries, or where it runs out of memory unpressed
  Bytes demand;          ///< held at once by the first data rank, at most
  Bytes most_unpressed;  ///< by any of them, with all the memory that it asks for
  /// The worst's where all is asked for; absent where its demand alone refuses it.
  std::optional<RankSteps> worst_steps;
};

/// A rank that does not fit is worse than one that does; of equals the one that reserves more.
/// Leaves the rest where the ranks that stand out fit by far, or one does not fit. None where
/// the job has no replay. Throws OverflowError.
std::optional<StageRun> run_stage(const Graph& graph, const Job& job, std::int64_t pipeline_rank,
                                  StageRunEnd end);

/// Whether data ranks that reserve at most so much fit by so far that no other rank needs to be
/// looked at.
bool fits_by_far(Bytes most_unpressed, const Job& job);

}  // namespace memest
