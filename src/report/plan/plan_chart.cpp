#include "report/plan/plan_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <variant>

#include "memest/report/numbers.hpp"
#include "report/plan/plan_layout.hpp"

namespace memest {
namespace {

double pace_of(const PlanVerdict& plan, const TimeEstimate& time) {
  return time.tokens_per_second_per_gpu * static_cast<double>(plan.candidate.gpus);
}

std::string gpus_text(const PlanCandidate& candidate) {
  return fmt::format("{} × {}", candidate.gpus, candidate.gpu->slug);
}

void add_mark(const PlanVerdict& plan, ChartSeries& series) {
  const auto* time = std::get_if<TimeEstimate>(&plan.time);
  const auto* cost = std::get_if<CostEstimate>(&plan.cost);
  if (time == nullptr || cost == nullptr) return;
  // Logarithmic axes have no place for what is free.
  if (cost->per_billion_tokens <= Dollars() || pace_of(plan, *time) <= 0) return;
  const PlanCandidate& candidate = plan.candidate;
  series.marks.push_back(
      {.x = cost->per_billion_tokens.value(),
       .y = pace_of(plan, *time),
       .name = gpus_text(candidate),
       .detail =
           fmt::format("{} per billion tokens, {} tokens/s, at most {} of {}; micro-batch {}, "
                       "recompute {}, {}",
                       dollars_text(cost->per_billion_tokens), count_text(pace_of(plan, *time)),
                       sized_text(plan.high), sized_text(plan.capacity), candidate.micro_batch,
                       text_of(candidate.recompute), layout_text(candidate.parallelism))});
}

std::vector<ChartSeries> series_of(const PlanAnswer& answer) {
  ChartSeries front{.name = "the front", .hue = Hue::teal, .hollow = true};
  ChartSeries fits{.name = "the first rows", .hue = Hue::indigo, .labelled = true};
  ChartSeries close{.name = "too close to call", .hue = Hue::sand, .labelled = true};
  for (const PlanVerdict& plan : answer.front) add_mark(plan, front);
  for (std::size_t i = 0; i < std::min(answer.best.size(), kShownPlans); ++i) {
    const PlanVerdict& plan = answer.best[i];
    add_mark(plan, plan.verdict == Verdict::fits ? fits : close);
  }
  return {std::move(front), std::move(fits), std::move(close)};
}

MarkChart drawing_of(const PlanAnswer& answer) {
  MarkChart chart{.series = series_of(answer)};
  std::erase_if(chart.series, [](const ChartSeries& series) { return series.marks.empty(); });
  std::vector<double> money;
  std::vector<double> pace;
  for (const ChartSeries& series : chart.series) {
    for (const ChartMark& mark : series.marks) {
      money.push_back(mark.x);
      pace.push_back(mark.y);
    }
  }
  const AxisRuler dollars{.scale = AxisScale::logarithmic,
                          .write = [](double amount) { return significant_text(amount); }};
  const AxisRuler tokens{.scale = AxisScale::logarithmic, .write = count_text};
  chart.x = axis_over("USD per billion tokens", dollars, money);
  chart.y = axis_over("tokens/s of all GPUs", tokens, pace);
  return chart;
}

}  // namespace

Chart plans_chart(const PlanAnswer& answer) {
  return {"Money against pace.",
          "Up is faster, left is cheaper; both axes are logarithmic. No plan is better than one of "
          "the front in money, time, memory and GPUs at once.",
          [&answer] { return drawing_of(answer); }};
}

std::vector<Headline> headlines_of(const PlanAnswer& answer) {
  if (std::holds_alternative<Unavailable>(answer.unavailable)) {
    return {{"Verdict", "Not known", Tone::bad}};
  }
  if (answer.best.empty()) return {{"Verdict", "Nothing fits", Tone::bad}};
  const PlanVerdict& first = answer.best.front();
  const bool fits = first.verdict == Verdict::fits;
  std::vector<Headline> lines = {
      {"Verdict", fits ? "Fits" : "Too close to call", fits ? Tone::good : Tone::uncertain},
      {"First", gpus_text(first.candidate)},
      {"At most", fmt::format("{} of {}", sized_text(first.high), sized_text(first.capacity))}};
  if (const auto* time = std::get_if<TimeEstimate>(&first.time)) {
    lines.push_back({"A step", seconds_text(time->step)});
  }
  if (const auto* cost = std::get_if<CostEstimate>(&first.cost)) {
    lines.push_back({"A billion tokens", dollars_text(cost->per_billion_tokens)});
    lines.push_back({"All GPUs", dollars_text(cost->per_hour) + " an hour"});
  } else {
    lines.push_back({"Cost", "no price is known", Tone::faint});
  }
  return lines;
}

}  // namespace memest
