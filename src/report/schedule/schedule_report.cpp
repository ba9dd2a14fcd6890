#include "memest/report/schedule_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "memest/graph/parameters.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/pages/csv.hpp"
#include "report/pages/json.hpp"
#include "report/pages/title.hpp"

namespace memest {
namespace {

/// By what a reader looks for: within the budget, fast, low.
const ScheduleRow& best_of(const ScheduleAnswer& answer) {
  const auto place = [](const ScheduleRow& row) {
    return std::tuple(!row.fits, row.fits ? row.step.value() : 0.0, row.peak);
  };
  return *std::ranges::min_element(answer.rows, {}, place);
}

std::string part_text(double part, const ScheduleRow& row) {
  if (part <= 0) return "";
  return fmt::format("{:.0f} %", 100 * part / row.played.seconds);
}

Table table_of(const ScheduleAnswer& answer) {
  Table table{{{"schedule"},
               {"peak", Align::right},
               {"in PyTorch", Align::right},
               {"step", Align::right},
               {"× step", Align::right},
               {"again", Align::right},
               {"copied", Align::right},
               {"waits", Align::right}},
              {}};
  for (const ScheduleRow& row : answer.rows) {
    const Bytes copied = Bytes(row.played.copied) + row.paged_states;
    table.rows.push_back(
        {{row.name, sized_text(row.peak), row.replayed ? sized_text(*row.replayed) : "",
          seconds_text(row.step), fmt::format("{:.2f}", row.step / answer.step),
          part_text(row.played.recomputed, row), copied > Bytes(0) ? sized_text(copied) : "",
          part_text(row.played.waited, row)},
         row.fits ? "✓" : "✗",
         row.fits ? Tone::plain : Tone::faint});
  }
  return table;
}

std::string summary_of(const ScheduleAnswer& answer) {
  const ScheduleRow& own = answer.rows.front();
  const ScheduleRow& best = best_of(answer);
  const std::string kept = fmt::format("Tensors take {} where all are kept, of {}",
                                       sized_text(own.peak), sized_text(answer.budget));
  if (own.fits) return kept + ": they fit";
  const Bytes outside(answer.scheduled.step.outside);
  if (outside > answer.budget) {
    return fmt::format("{}. The optimizer's step alone takes {}, which no schedule lowers", kept,
                       sized_text(outside));
  }
  if (!best.fits) {
    return fmt::format("{}. No schedule stays within; the least is {}, {}", kept,
                       sized_text(best.peak), best.name);
  }
  return fmt::format("{}. Fastest within: {}, {}, × {:.2f} the step", kept, best.name,
                     sized_text(best.peak), best.step / answer.step);
}

Page page_of(const Job& job, const ScheduleAnswer& answer) {
  const bool fits = best_of(answer).fits;
  Page page{{Heading{title_of(job, count_parameters(job).total)}, Paragraph{setting_of(job)},
             Paragraph{summary_of(answer) + ".", fits ? Tone::good : Tone::bad}}};
  page.parts.emplace_back(table_of(answer));
  page.parts.emplace_back(Paragraph{
      fmt::format(
          "{} operations and {} tensors in a chain of {} stages. Peaks are of tensors, without "
          "what the allocator loses; `again` is computed twice and `waits` for copies, as shares "
          "of both passes; `copied` goes to the host in each micro-step, and comes back. `in "
          "PyTorch` is the same replayed as torch.utils.checkpoint runs it.",
          answer.scheduled.step.ops.size(), answer.scheduled.step.tensors.size(), answer.stages),
      Tone::faint});
  if (answer.scheduled.touched.empty()) {
    page.parts.emplace_back(Paragraph{
        fmt::format("Unified memory is not among them: nobody has measured how fast pages come to "
                    "{} when they are touched (memest calibrate on one).",
                    job.hardware.gpu.slug),
        Tone::faint});
  }
  page.parts.emplace_back(Paragraph{provenance_text(job), Tone::faint});
  return page;
}

Json row_json(const ScheduleRow& row) {
  Json json{{"name", row.name},
            {"peak_bytes", row.peak.value()},
            {"within", row.fits},
            {"step_seconds", row.step.value()},
            {"recomputed_seconds", row.played.recomputed},
            {"waited_seconds", row.played.waited},
            {"copied_bytes", row.played.copied},
            {"host_peak_bytes", row.played.host_peak},
            {"actions", row.actions.size()}};
  if (row.paged_states > Bytes(0)) json["paged_states_bytes"] = row.paged_states.value();
  if (row.replayed) json["replayed_bytes"] = row.replayed->value();
  return json;
}

std::string json_of(const ScheduleAnswer& answer, const Question& question) {
  Json json = new_answer();
  json["budget_bytes"] = answer.budget.value();
  json["step_seconds"] = answer.step.value();
  json["operations"] = answer.scheduled.step.ops.size();
  json["tensors"] = answer.scheduled.step.tensors.size();
  json["stages"] = answer.stages;
  json["schedules"] = Json::array();
  for (const ScheduleRow& row : answer.rows) json["schedules"].push_back(row_json(row));
  json["best"] = best_of(answer).name;
  json["provenance"] = {{"versions", {{"memest", question.version}}}};
  return text_of(json);
}

Table records_of(const ScheduleAnswer& answer) {
  Table table{{{"schedule"},
               {"within"},
               {"peak_bytes"},
               {"step_seconds"},
               {"recomputed_seconds"},
               {"waited_seconds"},
               {"copied_bytes"}},
              {}};
  for (const ScheduleRow& row : answer.rows) {
    table.rows.push_back(
        {{row.name, row.fits ? "yes" : "no", std::to_string(row.peak.value()),
          fmt::format("{}", row.step.value()), fmt::format("{}", row.played.recomputed),
          fmt::format("{}", row.played.waited), std::to_string(row.played.copied)},
         "",
         Tone::plain});
  }
  return table;
}

std::string_view name_of(ActionKind kind) {
  constexpr std::array<std::string_view, 5> kNames = {"forward", "backward", "drop", "copy out",
                                                      "copy in"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

Report report_schedules(const Job& job, const ScheduleAnswer& answer, const Question& question) {
  return {page_of(job, answer), records_of(answer), json_of(answer, question)};
}

std::string actions_csv(const ScheduleAnswer& answer) {
  using CsvCells = std::array<std::string, 6>;
  std::string out;
  append_csv_line(out, CsvCells{"action", "instance", "block", "op", "tensor", "bytes"});
  const StepTensors& step = answer.scheduled.step;
  for (const Action& action : best_of(answer).actions) {
    const bool of_op = action.kind == ActionKind::forward || action.kind == ActionKind::backward;
    const StepOp& op = step.ops[of_op ? action.index : step.tensors[action.index].makers.front()];
    const Block& block = answer.graph.blocks[op.block];
    CsvCells cells = {std::string(name_of(action.kind)),
                      std::to_string(op.instance),
                      block.name,
                      std::string(block.ops[op.op].name),
                      "",
                      ""};
    if (!of_op) {
      const StepTensor& tensor = step.tensors[action.index];
      cells[4] = std::string(block.tensors[tensor.tensor].name);
      cells[5] = std::to_string(tensor.bytes);
    }
    append_csv_line(out, cells);
  }
  return out;
}

}  // namespace memest
