// Why a candidate was refused, in words: what is missing, what fills the device, what would help.
#pragma once

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

/// A change that makes a job need less, and what it needs then.
struct Lever {
  std::string name;  ///< "full recompute", "ZeRO 3", "adamw-8bit"
  MemoryEstimate after;
};

/// From the least change of what is trained to the greatest. Each is lowered and written anew.
std::vector<Lever> levers_of(const Job& job);

/// The first lever that makes the job fit; else the one that saves most: "full recompute saves 12.3
/// GiB". Empty where none helps. `estimate` is the job's own, `capacity` its device's.
std::string lever_text(const std::vector<Lever>& levers, const MemoryEstimate& estimate,
                       const Capacity& capacity);

}  // namespace memest
