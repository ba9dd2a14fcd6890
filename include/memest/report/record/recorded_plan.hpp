// The answer of `memest plan` for a recorded run: GPU types side by side, the best first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memest/plan/objective.hpp"
#include "memest/report/replay_report.hpp"
#include "memest/report/report.hpp"

namespace memest {

struct RankedRun {
  PlayedRun run;
  std::int64_t units = 1;  ///< of the number that was left open, in a step

  /// A unit's part of a step; nothing where the step has no time, or the GPU no price.
  [[nodiscard]] std::optional<Seconds> seconds() const;
  [[nodiscard]] std::optional<Dollars> cost() const;
};

struct RecordedPlan {
  std::string open;  ///< the number that was left open; empty: none was
  Objective objective = Objective::money;
  std::vector<RankedRun> runs = {};
};

/// The best by the objective first; of money and time those for which it is not known behind the
/// others, and last what does not fit.
void rank(RecordedPlan& plan);

/// One run or more, ranked.
Report report_plan(const RecordedPlan& plan, const Question& question);

}  // namespace memest
