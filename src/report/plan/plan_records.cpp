#include "report/plan/plan_records.hpp"

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "memest/plan/whole_training.hpp"
#include "memest/report/numbers.hpp"
#include "memest/spec/parallel/sharing.hpp"
#include "report/pages/title.hpp"
#include "report/plan/plan_layout.hpp"
#include "report/plan/plan_training.hpp"

namespace memest {
namespace {

/// Behind the others of a record.
constexpr std::array kTrainingColumns = {
    "tokens",         "days", "days_low", "days_high", "gpu_hours", "gpu_hours_low",
    "gpu_hours_high", "usd",  "usd_low",  "usd_high",  "in_time"};

/// The whole training; empty cells where it is not asked for, or not known.
std::vector<std::string> training_records(const PlanVerdict& verdict,
                                          const std::optional<Goal>& goal) {
  std::vector<std::string> cells(kTrainingColumns.size());
  if (!goal) return cells;
  cells[0] = exact_text(goal->tokens);
  const auto known = whole_training_of(verdict, goal->tokens);
  const auto* training = std::get_if<WholeTraining>(&known);
  if (training == nullptr) return cells;
  const auto put = [&cells](std::size_t first, const Spread& spread, double unit) {
    cells[first] = exact_text(spread.expected / unit);
    cells[first + 1] = exact_text(spread.low / unit);
    cells[first + 2] = exact_text(spread.high / unit);
  };
  put(1, training->seconds, kSecondsOfDay);
  put(4, training->gpu_hours, 1);
  if (training->dollars) put(7, *training->dollars, 1);
  if (goal->within) cells[10] = std::string(name_of(held_to(*training, *goal->within)));
  return cells;
}

/// Which implementation, and whether it compiles.
std::vector<std::string> implementation_records(const PlanVerdict& verdict,
                                                const PlanRequest& request, const PlanView& view) {
  if (verdict.choice < view.choices.size()) {
    const ImplementationChoice& choice = view.choices[verdict.choice];
    return {std::string(name_of(choice.framework)), std::string(name_of(choice.compile))};
  }
  const ForwardSpec* forward = request.job.forward();
  if (forward == nullptr) return {"", ""};
  return {std::string(name_of(forward->implementation.framework)),
          std::string(name_of(forward->implementation.compile))};
}

Row record_of(const PlanVerdict& verdict, const PlanRequest& request, const PlanView& view) {
  const PlanCandidate& candidate = verdict.candidate;
  std::vector<std::string> cells = {
      candidate.gpu->slug,
      std::to_string(candidate.gpus),
      std::to_string(candidate.micro_batch),
      std::to_string(candidate.gradient_accumulation),
      text_of(candidate.recompute),
      std::string(digit_of(sharing_of(candidate.parallelism).stage())),
      std::string(name_of(verdict.verdict)),
      std::to_string(verdict.device.value()),
      std::to_string(verdict.low.value()),
      std::to_string(verdict.high.value()),
      std::to_string(verdict.capacity.value())};
  const auto* time = std::get_if<TimeEstimate>(&verdict.time);
  const auto* cost = std::get_if<CostEstimate>(&verdict.cost);
  cells.push_back(time == nullptr ? "" : exact_text(time->step.value()));
  cells.push_back(time == nullptr ? "" : exact_text(time->tokens_per_second_per_gpu));
  cells.push_back(time == nullptr ? "" : exact_text(time->mfu));
  cells.push_back(cost == nullptr ? "" : exact_text(cost->per_billion_tokens.value()));
  cells.push_back(verdict.reason);
  cells.push_back(lever_text(verdict.levers));
  cells.push_back(layout_text(candidate.parallelism));
  for (std::string& text : training_records(verdict, request.goal)) {
    cells.push_back(std::move(text));
  }
  for (std::string& text : implementation_records(verdict, request, view)) {
    cells.push_back(std::move(text));
  }
  return {std::move(cells), "", {}};
}

}  // namespace

Table records_of(const PlanRequest& request, const PlanAnswer& answer, const PlanView& view) {
  Table table;
  for (const char* title : {"gpu", "gpus", "micro_batch", "gradient_accumulation", "recompute",
                            "zero", "verdict", "device_bytes", "low_bytes", "high_bytes",
                            "capacity_bytes", "step_seconds", "tokens_per_second_per_gpu", "mfu",
                            "usd_per_billion_tokens", "reason", "lever", "layout"}) {
    table.columns.push_back({title});
  }
  for (const char* title : kTrainingColumns) table.columns.push_back({title});
  for (const char* title : {"implementation", "compile"}) table.columns.push_back({title});
  for (const auto* rows : {&answer.best, &answer.refused}) {
    for (const PlanVerdict& verdict : *rows) {
      table.rows.push_back(record_of(verdict, request, view));
    }
  }
  return table;
}

}  // namespace memest
