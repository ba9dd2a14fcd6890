// Why a candidate was refused, in words: what is missing, what fills the device, what would help.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "memest/memory/ledger.hpp"
#include "memest/plan/search.hpp"

namespace memest {

/// The terms alive at the peak, largest first.
std::vector<NamedBytes> largest_terms(const Ledger& ledger, const MemoryEstimate& estimate);

/// "needs 7.4 GiB more: gradients 16.0, optimizer states 32.1, ..." or "too close to call:
/// between 78.2 and 80.9 of 79.3 GiB".
std::string reason_of(const PlanVerdict& verdict);

/// "takes 41.3 days (32.2 to 61.9), 11.3 more than allowed: needs 1.38 times the speed". `goal` has
/// a time.
std::string lateness_of(const PlanVerdict& verdict, const Goal& goal);

/// A change to a job, and its name.
struct Change {
  std::string name;
  std::function<void(Job&)> apply;
};

/// Changes that make `job` need less, from the least change of what is trained to the greatest.
std::vector<Change> changes_of(const Job& job);

/// Why the job's model is answered on one GPU alone; null where it is on many.
const char* only_alone(const Job& job);

/// The ranks of the job's pipeline that may take most.
std::vector<std::int64_t> ranks_that_may_take_most(const Job& job);

/// Expected seconds a token; none where the job's steps have no time.
std::optional<double> seconds_per_token(const Job& job);

/// The levers that save something: the first that fits, then those that save most.
std::vector<Lever> ranked(std::vector<Lever> levers);

}  // namespace memest
