// As little recompute as fits: the plan of checkpoints of least time among those that a program has
// words for. Every plan is a job of its own, estimated as any other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <variant>

#include "memest/plan/estimate.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// A plan of checkpoints, and what the job takes with it.
struct TriedRecompute {
  Recompute recompute;
  Bytes taken;                  ///< of a GPU's memory at most, by the rank that takes most
  std::optional<Seconds> step;  ///< absent where its time is not known
};

/// By how many bytes a plan is over what it may take; none or less where it fits.
using BytesOver = std::function<std::int64_t(const MemoryAnswer&)>;

struct LeastRecompute {
  std::optional<TriedRecompute> fitting;  ///< absent where none of them fits
  /// The one that takes least memory among those that were looked at.
  std::optional<TriedRecompute> smallest;
};

/// Finds the plan of least time that fits, whatever recompute `job` has. Where layers are all alike
/// the first k are recomputed; between a k that fits and one that does not the search halves.
/// Unavailable where the memory of no plan is known. Throws OverflowError.
std::variant<LeastRecompute, Unavailable> least_recompute(const Job& job, const BytesOver& over);

/// No plan of checkpoints keeps the job within its budget.
struct OverBudget {
  Bytes budget;
  TriedRecompute smallest;
};

/// `job` with the plan of least time in place of a BudgetRecompute: one that takes no more than its
/// budget, at most. Other jobs stay what they are. Throws OverflowError.
std::variant<Job, OverBudget, Unavailable> with_recompute_in_budget(const Job& job);

}  // namespace memest
