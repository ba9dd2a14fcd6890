#include <string>
#include <utility>
#include <variant>

#include "memest/plan/recorded_needs.hpp"
#include "plan/estimate/budget_line.hpp"

namespace memest {
namespace {

/// Whether a step's time is there, or why it is not.
std::variant<const RecordedTime*, std::string> time_of(const RecordedNeeds& needs) {
  if (const auto* time = std::get_if<RecordedTime>(&needs.time)) return time;
  if (const auto* why = std::get_if<Unavailable>(&needs.time)) return why->sentence;
  return std::string("no step's work is recorded, or there is no GPU to time it on");
}

BudgetLine exact_line(BudgetItem item, double limit, double value) {
  return line_of(item, limit, {value, value, value});
}

BudgetLine not_whole(BudgetItem item, double limit) {
  return {item, BudgetStatus::unavailable, limit, 0, 0, 0, kEndUnknown};
}

}  // namespace

std::vector<BudgetLine> hold_to_budget(const Budget& budget, const RecordedNeeds& needs) {
  const double share = 1 - budget.margin;
  std::vector<BudgetLine> lines;
  const auto put_timed = [&](BudgetItem item, double limit, auto read) {
    const auto time = time_of(needs);
    if (const auto* why = std::get_if<std::string>(&time)) {
      lines.push_back({item, BudgetStatus::unavailable, limit, 0, 0, 0, *why});
    } else {
      lines.push_back(line_of(item, limit, read(*std::get<const RecordedTime*>(time))));
    }
  };
  // Memory that is over already is over whatever the rest would have asked for.
  const auto put_memory = [&](BudgetItem item, double limit) {
    BudgetLine line = exact_line(item, limit, needs.device().as_double());
    if (item == BudgetItem::capacity && !needs.fits) line.status = BudgetStatus::over;
    if (!needs.whole && line.status != BudgetStatus::over) line = not_whole(item, limit);
    lines.push_back(std::move(line));
  };
  if (needs.capacity) {
    put_memory(BudgetItem::capacity, needs.capacity->as_double());
  } else if (!needs.whole && !budget.memory) {
    lines.push_back(not_whole(BudgetItem::memory, 0));
  }
  if (budget.memory) put_memory(BudgetItem::memory, budget.memory->as_double() * share);
  if (budget.step_time) {
    put_timed(BudgetItem::step_time, budget.step_time->value() * share,
              [](const RecordedTime& time) {
                return HeldNumber{time.step.value(), time.low.value(), time.high.value()};
              });
  }
  if (budget.cost_per_billion_tokens) {
    lines.push_back({BudgetItem::cost_per_billion_tokens, BudgetStatus::unavailable,
                     budget.cost_per_billion_tokens->value() * share, 0, 0, 0,
                     "a recording does not say how many tokens a step has"});
  }
  if (budget.flops) {
    put_timed(BudgetItem::flops, budget.flops->as_double() * share, [](const RecordedTime& time) {
      const double flops = time.flops.as_double();
      return HeldNumber{flops, flops, flops};
    });
  }
  return lines;
}

}  // namespace memest
