#include <variant>

#include "memest/plan/recorded_needs.hpp"
#include "plan/estimate/budget_line.hpp"

namespace memest {
namespace {

/// Whether a step's time is there, or why it is not.
std::variant<const RecordedTime*, std::string> time_of(const RecordedNeeds& needs) {
  if (const auto* time = std::get_if<RecordedTime>(&needs.time)) return time;
  if (const auto* why = std::get_if<Unavailable>(&needs.time)) return why->sentence;
  return std::string(needs.capacity ? "no step's work is recorded"
                                    : "the recording says no GPU: --gpu NAME does");
}

BudgetLine exact_line(BudgetItem item, double limit, double value) {
  return line_of(item, limit, {value, value, value});
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
  if (needs.capacity) {
    lines.push_back(
        exact_line(BudgetItem::capacity, needs.capacity->as_double(), needs.device().as_double()));
    lines.back().status = needs.fits ? BudgetStatus::within : BudgetStatus::over;
  }
  if (budget.memory) {
    lines.push_back(exact_line(BudgetItem::memory, budget.memory->as_double() * share,
                               needs.device().as_double()));
  }
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
