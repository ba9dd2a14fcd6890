#include "report/plan/plan_order.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "memest/report/numbers.hpp"

namespace memest {
namespace {

/// "micro-batch 2, recompute none, t2 D4 Z1 (+1.2 %)".
std::string rival_text(const Rival& rival, Splits splits) {
  return fmt::format("{} (+{})", settings_text(rival.candidate, splits),
                     percent_text(rival.slower));
}

}  // namespace

std::string order_text(const PlanVerdict& first, const OrderMargin& order, Splits splits) {
  if (order.cells == 0 || !std::holds_alternative<TimeEstimate>(first.time)) return {};
  std::string text = fmt::format(
      "Order: in {} published sets of layouts of one model on the same GPUs the one ranked first "
      "lost {} of the best pace in the median, {} at most.",
      order.cells, percent_text(order.median_lost), percent_text(order.most_lost));
  std::vector<std::string> near;
  for (const Rival& rival : first.rivals) {
    const double lost = 1 - 1 / (1 + rival.slower);
    if (lost <= order.most_lost) near.push_back(rival_text(rival, splits));
  }
  const std::string gpus = fmt::format("{} × {}", first.candidate.gpus, first.candidate.gpu->slug);
  if (near.empty()) return text + fmt::format(" No other layout of {} is as near.", gpus);
  return text + fmt::format(" As near on {}: {}.", gpus, fmt::join(near, "; "));
}

}  // namespace memest
