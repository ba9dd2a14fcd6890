#include "memest/report/largest_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <variant>

#include "memest/diag/expect.hpp"
#include "memest/graph/parameters.hpp"
#include "memest/report/numbers.hpp"
#include "report/pages/json.hpp"
#include "report/pages/title.hpp"
#include "report/plan/plan_layout.hpp"

namespace memest {
namespace {

/// The grown size, as the table's column says it.
std::string column_of(Growth growth) {
  switch (growth) {
    case Growth::micro_batch:
      return "micro-batch";
    case Growth::sequence:
      return "tokens";
    case Growth::model:
      return "layers";
  }
  unreachable("everything that grows has a column");
}

const PlanVerdict* plan_of(const Largest& answer) { return std::get_if<PlanVerdict>(&answer.plan); }

std::string why_not(const Largest& answer) {
  const PlanVerdict* plan = plan_of(answer);
  return plan == nullptr ? std::get<Unavailable>(answer.plan).sentence : plan->reason;
}

Row row_of(const Largest& answer, const PlanRequest& request, Growth growth) {
  Row row;
  row.cells = {fmt::format("{} × {}", answer.gpus, request.gpus[answer.gpu].slug)};
  if (answer.value == 0) {
    row.cells.push_back(why_not(answer));
    row.marker = "✗";
    row.tone = Tone::bad;
    return row;
  }
  const PlanVerdict& plan = *plan_of(answer);
  const PlanCandidate& candidate = plan.candidate;
  row.cells.push_back(std::to_string(answer.value));
  if (growth == Growth::model) {
    row.cells.push_back(count_text(static_cast<double>(answer.parameters)));
  }
  row.cells.insert(row.cells.end(),
                   {std::to_string(candidate.micro_batch), text_of(candidate.recompute),
                    layout_text(candidate.parallelism), gib_text(plan.device), gib_text(plan.high),
                    gib_text(plan.capacity)});
  return row;
}

Table table_of(const PlanRequest& request, Growth growth, const std::vector<Largest>& answers) {
  Table table{{{"GPUs"}, {column_of(growth), Align::right}}, {}};
  if (growth == Growth::model) table.columns.push_back({"parameters", Align::right});
  for (const char* title : {"micro", "recompute", "layout", "peak", "at most", "of GiB"}) {
    const std::string_view word = title;
    table.columns.push_back(
        {title, word == "recompute" || word == "layout" ? Align::left : Align::right});
  }
  for (const Largest& answer : answers) table.rows.push_back(row_of(answer, request, growth));
  return table;
}

bool is_replayed(const Largest& answer) {
  const PlanVerdict* plan = plan_of(answer);
  return plan != nullptr && plan->replayed;
}

std::string method_of(const std::vector<Largest>& answers) {
  const std::string next = ", as are those of the next larger one, which has no plan";
  const auto replayed = std::ranges::count_if(answers, is_replayed);
  if (replayed == std::ssize(answers)) return "its steps are replayed" + next;
  if (replayed == 0) return "by the closed form, as jobs like it have no replay";
  return "its steps are replayed" + next + "; closed form where jobs like it have no replay";
}

Json json_of(const Largest& answer, const PlanRequest& request) {
  Json json{{"gpu", request.gpus[answer.gpu].slug},
            {"gpus", answer.gpus},
            {"largest", answer.value},
            {"parameters", answer.parameters}};
  if (answer.value == 0) {
    json["reason"] = why_not(answer);
    return json;
  }
  const PlanVerdict& plan = *plan_of(answer);
  json["micro_batch"] = plan.candidate.micro_batch;
  json["recompute"] = text_of(plan.candidate.recompute);
  json["layout"] = layout_text(plan.candidate.parallelism);
  json["device_bytes"] = plan.device.value();
  json["interval_bytes"] = {plan.low.value(), plan.high.value()};
  json["capacity_bytes"] = plan.capacity.value();
  json["method"] = plan.replayed ? "replay" : "closed form";
  return json;
}

}  // namespace

Report report_largest(const PlanRequest& request, Growth growth,
                      const std::vector<Largest>& answers, const Question& question) {
  Report report;
  const Table table = table_of(request, growth, answers);
  report.page.parts.emplace_back(
      Heading{title_of(request.job, count_parameters(request.job).total)});
  report.page.parts.emplace_back(table);
  report.page.parts.emplace_back(Paragraph{
      fmt::format("The largest {} that fits, in any layout of the search{}: {}.", name_of(growth),
                  growth == Growth::sequence ? ", in steps of 1,024 tokens"
                  : growth == Growth::model  ? ", of the given width"
                                             : "",
                  method_of(answers)),
      Tone::faint});
  report.records = table;
  Json json = new_answer();
  json["question"] = name_of(growth);
  json["answers"] = Json::array();
  for (const Largest& answer : answers) json["answers"].push_back(json_of(answer, request));
  const bool replayed = std::ranges::any_of(answers, is_replayed);
  json["provenance"] = {{"method", replayed ? "replay" : "closed form"},
                        {"versions", {{"memest", question.version}}}};
  report.json = text_of(json);
  return report;
}

}  // namespace memest
