// A candidate as the answer shows it: ledger, time, money, and for a refusal the reason and the
// levers.
#pragma once

#include <optional>
#include <vector>

#include "memest/plan/search.hpp"
#include "plan/layouts/group_search.hpp"
#include "plan/search/replays.hpp"

namespace memest {

/// Several threads may ask at once.
class Describer {
 public:
  /// `request` outlives this.
  explicit Describer(const PlanRequest& request) : request_(request) {}

  /// The candidate's setting.
  [[nodiscard]] PlanCandidate candidate_of(const Evaluated& candidate, const Group& group,
                                           const std::vector<Recompute>& recomputes) const;
  /// The job of a candidate, with its price.
  [[nodiscard]] Job job_of(const PlanCandidate& candidate) const;
  /// The answer of `estimate` for the job's memory; none where it is not lowered.
  [[nodiscard]] std::optional<CandidateMemory> memory_of(const Job& job, Follow follow) {
    if (request_.on_step) request_.on_step(PlanStep::replay);
    return replays_.of(job, follow);
  }
  /// Setting, bytes by the closed form, time and money.
  [[nodiscard]] PlanVerdict outline(const Evaluated& candidate, const Group& group,
                                    const std::vector<Recompute>& recomputes) const;
  /// As above, with its own replayed memory, and for a refusal the reason and the levers.
  [[nodiscard]] PlanVerdict describe(const Evaluated& candidate, const Group& group,
                                     const std::vector<Recompute>& recomputes,
                                     const CandidateMemory& memory);
  /// No layout, none that has a graph, or none over whose ranks the global batch divides.
  [[nodiscard]] PlanVerdict refuse(const Group& group) const;

 private:
  void add_levers(const Job& job, PlanVerdict& verdict);
  [[nodiscard]] Unavailable cause_of(const Group& group) const;

  const PlanRequest& request_;
  Replays replays_;
};

}  // namespace memest
