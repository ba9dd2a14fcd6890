#include "report/plan/plan_training.hpp"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "memest/plan/whole_training.hpp"
#include "memest/report/numbers.hpp"

namespace memest {
namespace {

/// "4.82 (3.8 to 7.2) k".
std::string spread_text(const Spread& spread) {
  const auto [unit, letter] = spread.expected >= 1e6   ? std::pair(1e6, " M")
                              : spread.expected >= 1e3 ? std::pair(1e3, " k")
                                                       : std::pair(1.0, "");
  return fmt::format("{} ({} to {}){}", significant_text(spread.expected / unit),
                     significant_text(spread.low / unit, 2),
                     significant_text(spread.high / unit, 2), letter);
}

std::string days_text(const Spread& seconds) {
  return spread_text({seconds.expected / kSecondsOfDay, seconds.low / kSecondsOfDay,
                      seconds.high / kSecondsOfDay});
}

}  // namespace

std::vector<std::string> training_cells(const PlanVerdict& verdict, const Goal& goal) {
  const auto known = whole_training_of(verdict, goal.tokens);
  const auto* training = std::get_if<WholeTraining>(&known);
  if (training == nullptr) return {"–", "–", "–"};
  return {days_text(training->seconds), spread_text(training->gpu_hours),
          training->dollars ? spread_text(*training->dollars) : "–"};
}

std::string training_text(const PlanVerdict& verdict, const Goal& goal) {
  const auto known = whole_training_of(verdict, goal.tokens);
  const auto* training = std::get_if<WholeTraining>(&known);
  if (training == nullptr) {
    return fmt::format(" How long {} tokens take is not known: {}.", count_text(goal.tokens),
                       std::get<Unavailable>(known).sentence);
  }
  std::string text =
      fmt::format(" {} tokens take {} days and {} GPU-hours", count_text(goal.tokens),
                  days_text(training->seconds), spread_text(training->gpu_hours));
  if (training->dollars) text += fmt::format(", {} USD", spread_text(*training->dollars));
  if (goal.within && held_to(*training, *goal.within) == InTime::expected) {
    text += "; its slow end is later than allowed";
  }
  return text + ".";
}

}  // namespace memest
