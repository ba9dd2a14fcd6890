// A file's budget held against its estimate: what `memest check` asks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "memest/plan/estimate.hpp"
#include "memest/spec/job.hpp"

namespace memest {

enum class BudgetItem : std::uint8_t {
  capacity,     ///< of the GPU that the spec names; held without being asked
  host_memory,  ///< of the host that the spec names, where something is offloaded to it; likewise
  memory,       ///< of a GPU
  step_time,
  cost_per_billion_tokens,
  flops  ///< executed ones of a step and GPU
};
/// "capacity", "host_memory", "memory", "step_time", "cost_per_billion_tokens", "flops": the spec's
/// own keys.
std::string_view name_of(BudgetItem item);

enum class BudgetStatus : std::uint8_t {
  within,      ///< the whole interval
  too_close,   ///< the estimate is within, its interval is not
  over,        ///< the estimate itself
  unavailable  ///< there is no estimate to hold
};
/// "within", "too-close-to-call", "over", "unavailable".
std::string_view name_of(BudgetStatus status);

/// One budget of a file. Numbers are in the base unit: B, s, USD, FLOP.
struct BudgetLine {
  BudgetItem item = BudgetItem::memory;
  BudgetStatus status = BudgetStatus::within;
  double limit = 0;  ///< the budget less its margin
  double value = 0;
  double low = 0;
  double high = 0;
  std::string sentence;  ///< why there is no estimate; empty otherwise
};

/// Whether the file says anything to be held to.
bool has_budget(const Budget& budget);

/// A line for each budget of the file, and for the capacity of a GPU and of a host that it names; a
/// file that says nothing to be held to has a line only where its memory is unavailable.
std::vector<BudgetLine> hold_to_budget(const Job& job, const JobEstimate& estimate);

}  // namespace memest
