#include "plan/search/ranking.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <variant>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

constexpr double kUnknownRank = std::numeric_limits<double>::infinity();

}  // namespace

double dollars_per_token(const PlanVerdict& plan) {
  const auto* cost = std::get_if<CostEstimate>(&plan.cost);
  return cost != nullptr ? cost->per_billion_tokens.value() : kUnknownRank;
}

double tokens_per_second(const PlanVerdict& plan) {
  const auto* time = std::get_if<TimeEstimate>(&plan.time);
  if (time == nullptr) return -kUnknownRank;
  return time->tokens_per_second_per_gpu * static_cast<double>(plan.candidate.gpus);
}

double measure_of(const PlanVerdict& plan, Objective objective) {
  switch (objective) {
    case Objective::money:
      return dollars_per_token(plan);
    case Objective::time:
      return -tokens_per_second(plan);
    case Objective::memory:
      return plan.high / plan.capacity;
    case Objective::gpus:
      return static_cast<double>(plan.candidate.gpus);
  }
  unreachable("every objective has its measure");
}

bool ranks_before(const PlanVerdict& left, const PlanVerdict& right, Objective objective) {
  const auto key = [objective](const PlanVerdict& plan) {
    // Plans that surely fit come before those too close to call, whatever they cost; price and pace
    // break ties.
    return std::tuple(plan.verdict != Verdict::fits, measure_of(plan, objective),
                      dollars_per_token(plan), -tokens_per_second(plan));
  };
  return key(left) < key(right);
}

bool lacks_less(const PlanVerdict& left, const PlanVerdict& right) {
  const auto key = [](const PlanVerdict& plan) {
    Bytes lacking = plan.high - plan.capacity;
    if (plan.host) lacking = std::max(lacking, plan.host->of_node() - plan.host->capacity.bytes);
    // A row without any candidate (Describer::refuse) has no bytes and stands last.
    return std::tuple(plan.device == Bytes(), std::max(lacking, Bytes()), -tokens_per_second(plan));
  };
  return key(left) < key(right);
}

}  // namespace memest
