#include "memest/plan/budget.hpp"

#include "memest/diag/expect.hpp"
#include "plan/estimate/budget_line.hpp"

namespace memest {
namespace {

/// The line of an estimate that may be missing; `read` turns it into numbers.
template <class T, class Read>
BudgetLine line_of(BudgetItem item, double limit, const std::variant<T, Unavailable>& estimate,
                   const Read& read) {
  if (const auto* missing = std::get_if<Unavailable>(&estimate)) {
    return {item, BudgetStatus::unavailable, limit, 0, 0, 0, missing->sentence};
  }
  return line_of(item, limit, read(std::get<T>(estimate)));
}

HeldNumber device_of(const MemoryAnswer& memory) {
  return {memory.device().as_double(), memory.low().as_double(), memory.high().as_double()};
}

/// The verdict of the memory room, as a line: it knows what a limit of the allocator does not hold.
BudgetLine capacity_line(const MemoryAnswer& memory) {
  const auto [expected, low, high] = memory.of_capacity();
  BudgetLine line = line_of(BudgetItem::capacity, memory.capacity.bytes.as_double(),
                            {expected.as_double(), low.as_double(), high.as_double()});
  switch (memory.verdict) {
    case Verdict::fits:
      line.status = BudgetStatus::within;
      break;
    case Verdict::does_not_fit:
      line.status = BudgetStatus::over;
      break;
    case Verdict::too_close_to_call:
      line.status = BudgetStatus::too_close;
      break;
  }
  return line;
}

/// Every rank's host memory is known to the byte, or unverified: no interval.
BudgetLine host_line(const HostNeed& need) {
  const double bytes = need.of_node().as_double();
  BudgetLine line =
      line_of(BudgetItem::host_memory, need.capacity.bytes.as_double(), {bytes, bytes, bytes});
  if (need.verdict() == Verdict::too_close_to_call) line.status = BudgetStatus::too_close;
  return line;
}

/// Money follows the step time, and its interval with it.
HeldNumber cost_of(const CostEstimate& cost, const JobEstimate& estimate) {
  const double value = cost.per_billion_tokens.value();
  const auto* time = std::get_if<TimeEstimate>(&estimate.time);
  if (time == nullptr) return {value, value, value};
  return {value, value * (time->low / time->step), value * (time->high / time->step)};
}

}  // namespace

std::string_view name_of(BudgetItem item) {
  switch (item) {
    case BudgetItem::capacity:
      return "capacity";
    case BudgetItem::host_memory:
      return "host_memory";
    case BudgetItem::memory:
      return "memory";
    case BudgetItem::step_time:
      return "step_time";
    case BudgetItem::cost_per_billion_tokens:
      return "cost_per_billion_tokens";
    case BudgetItem::flops:
      return "flops";
  }
  unreachable("a budget item beyond the enum");
}

std::string_view name_of(BudgetStatus status) {
  switch (status) {
    case BudgetStatus::within:
      return "within";
    case BudgetStatus::too_close:
      return "too-close-to-call";
    case BudgetStatus::over:
      return "over";
    case BudgetStatus::unavailable:
      return "unavailable";
  }
  unreachable("a budget status beyond the enum");
}

BudgetLine line_of(BudgetItem item, double limit, const HeldNumber& held) {
  BudgetLine line{item, BudgetStatus::within, limit, held.value, held.low, held.high, ""};
  if (held.value > limit) {
    line.status = BudgetStatus::over;
  } else if (held.high > limit) {
    line.status = BudgetStatus::too_close;
  }
  return line;
}

bool has_budget(const Budget& budget) {
  return budget.memory || budget.step_time || budget.cost_per_billion_tokens || budget.flops;
}

std::vector<BudgetLine> hold_to_budget(const Job& job, const JobEstimate& estimate) {
  const Budget& budget = job.budget;
  // A budget's margin is kept free: 10 % of 80 GiB leave 72 to hold to.
  const double share = 1 - budget.margin;
  std::vector<BudgetLine> lines;
  if (const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory)) {
    // A GPU that nobody named has no capacity to hold to.
    if (!job.hardware.assumed) lines.push_back(capacity_line(*memory));
    const bool names_host = !job.hardware.assumed || job.hardware.host_memory;
    if (memory->host_need && names_host) lines.push_back(host_line(*memory->host_need));
  } else if (!job.hardware.assumed || !has_budget(budget)) {
    lines.push_back({BudgetItem::capacity, BudgetStatus::unavailable,
                     capacity_of(job.hardware).bytes.as_double(), 0, 0, 0,
                     std::get<Unavailable>(estimate.memory).sentence});
  }
  if (budget.memory) {
    lines.push_back(line_of(BudgetItem::memory, budget.memory->as_double() * share, estimate.memory,
                            device_of));
  }
  if (budget.step_time) {
    lines.push_back(
        line_of(BudgetItem::step_time, budget.step_time->value() * share, estimate.time,
                [](const TimeEstimate& time) {
                  return HeldNumber{time.step.value(), time.low.value(), time.high.value()};
                }));
  }
  if (budget.cost_per_billion_tokens) {
    lines.push_back(line_of(BudgetItem::cost_per_billion_tokens,
                            budget.cost_per_billion_tokens->value() * share, estimate.cost,
                            [&](const CostEstimate& cost) { return cost_of(cost, estimate); }));
  }
  if (budget.flops) {
    lines.push_back(line_of(BudgetItem::flops, budget.flops->as_double() * share, estimate.flops,
                            [](const FlopsEstimate& flops) {
                              const double executed = flops.executed().as_double();
                              return HeldNumber{executed, executed, executed};
                            }));
  }
  return lines;
}

}  // namespace memest
