// A recorded run held to a budget and to a lock, as an estimate is.
#pragma once

#include <optional>
#include <vector>

#include "memest/plan/budget.hpp"
#include "memest/spec/lock.hpp"
#include "memest/time/recorded_time.hpp"

namespace memest {

/// Why nobody knows whether a program fits that failed where it was recorded.
inline constexpr const char* kEndUnknown =
    "the program failed where it was recorded, and what its rest asks for is not known";

/// A recorded run on a device, every request of it granted.
struct RecordedNeeds {
  std::optional<Bytes> capacity;  ///< of the device, the context in it; absent: none to hold to
  bool fits = true;               ///< within it
  bool whole = true;              ///< the program came to its end where it was recorded
  Bytes allocated;
  Bytes reserved;
  Bytes context;  ///< beside what is reserved
  RecordedStepTime time;

  [[nodiscard]] Bytes device() const { return reserved + context; }
};

/// A line for each budget, and for the capacity where there is one: bytes as PyTorch's allocator
/// takes them, without an interval.
std::vector<BudgetLine> hold_to_budget(const Budget& budget, const RecordedNeeds& needs);

/// Sets `figures`: the device's memory, reserved and allocated, FLOPs and the step's time where it
/// has one. A recording has no terms.
void put_figures(const RecordedNeeds& needs, LockedSpec& spec);

}  // namespace memest
