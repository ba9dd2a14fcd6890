// Candidates of a search as `memest estimate` answers for them: their steps replayed, rank by rank.
// Without pressure a replay is the same on all GPUs that the same graph was lowered for, so types
// of GPU share theirs.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/plan/search.hpp"
#include "plan/layouts/layout_forms.hpp"
#include "plan/layouts/memo.hpp"
#include "plan/layouts/space.hpp"

namespace memest {

/// The memory of a job on its GPU, of the ranks that take most.
struct CandidateMemory {
  Verdict verdict = Verdict::fits;  ///< of the rank that is worst off
  bool replayed = true;  ///< false: jobs like this have no replay, and the closed form answers
  Bytes device;          ///< interval and terms as in PlanVerdict
  Bytes low;
  Bytes high;
  std::vector<NamedBytes> largest_terms;
  std::optional<HostNeed> host;  ///< where it offloads; `verdict` is of the host as well

  /// It fits, and not only by giving memory back to the driver and asking again.
  [[nodiscard]] bool fits_freely(const Capacity& capacity) const {
    return verdict == Verdict::fits && high <= capacity.bytes;
  }
};

/// How far a job is followed. All ranks are where it may fit.
enum class Follow : std::uint8_t {
  to_fit,  ///< whether it fits, no more: too close to call is all else that is not refused
           ///< at once, whatever it would be
  to_first_refusal,  ///< the verdict alone: the bytes of a refusal are not all that it needs
  ranks_of_most,     ///< those that may take most; the others cannot change that it does not fit
  all_ranks
};

/// Several threads may ask at once.
class Replays {
 public:
  /// None where the job is not lowered, or neither followed nor in closed form. `change` names what
  /// `job` differs in from the search's job beside layout, batch and recompute. Throws
  /// OverflowError.
  std::optional<CandidateMemory> of(const Job& job, Follow follow, const std::string& change = {});

 private:
  /// Everything that decides a rank's timeline beside its graph.
  struct RankKey {
    DeviceClass device;
    Parallelism layout;
    std::int64_t micro_batch = 1;
    std::int64_t gradient_accumulation = 1;
    std::string recompute;
    std::string change;
    std::int64_t rank = 0;
    bool flattens_on_host = false;

    auto operator<=>(const RankKey&) const = default;
  };
  /// A rank's memory on any GPU, as far as it is known.
  struct RankMemory {
    /// Reserved with all the memory that it asks for, by the data rank that reserves most.
    std::optional<Bytes> unpressed;
    bool has_all = false;         ///< no data rank was left because the others fit by far
    std::optional<Bytes> demand;  ///< held at once by the first data rank, at most
    bool has_replay = true;
    /// The ledger's estimate, or that of the events where it has no formulas; where it was asked
    /// for.
    std::optional<MemoryEstimate> estimate;
    std::vector<NamedBytes> largest_terms;
  };
  /// Ranks of one key, whose graphs may differ with the GPU.
  struct Variants {
    std::mutex mutex;
    std::deque<std::pair<Graph, RankMemory>> distinct;
  };
  struct RankOnGpu;
  struct Step;

  RankOnGpu follow_rank(const Step& step, const RankKey& key);
  static RankOnGpu replay(const Step& step, RankMemory& known);
  static void write_terms(const Step& step, RankMemory& known);

  Memo<RankKey, std::unique_ptr<Variants>> ranks_;
};

}  // namespace memest
