#include "memest/report/record/recorded_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <variant>

#include "memest/diag/expect.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/pages/json.hpp"
#include "report/pages/nouns.hpp"
#include "report/record/played_fit.hpp"
#include "report/record/played_point.hpp"
#include "report/record/work_report.hpp"

namespace memest {
namespace {

constexpr double kThousand = 1000;
constexpr std::size_t kRowsShown = 12;

/// Whether it is granted: a run that is not whole is known to fit nowhere.
bool does_fit(const RankedRun& planned) { return !planned.run.played.failed; }

const RecordedTime* time_of(const RankedRun& planned) {
  return does_fit(planned) ? std::get_if<RecordedTime>(&planned.run.time) : nullptr;
}

/// Less is better.
double measure_of(const RankedRun& planned, Objective objective) {
  constexpr double kUnknown = std::numeric_limits<double>::max();
  if (!does_fit(planned)) return std::numeric_limits<double>::infinity();
  switch (objective) {
    case Objective::gpus:  // one, then money
    case Objective::money: {
      const auto cost = planned.cost();
      return cost ? cost->value() : kUnknown;
    }
    case Objective::time: {
      const auto seconds = planned.seconds();
      return seconds ? seconds->value() : kUnknown;
    }
    case Objective::memory:
      return planned.run.played.end.reserved.peak.as_double() / planned.run.available.as_double();
  }
  unreachable("every objective has a measure");
}

/// "1,000 steps", or of the number that is open "1,000 of batch".
std::string thousand_of(const RecordedPlan& plan) {
  return plan.open.empty() ? "1,000 steps" : "1,000 of " + plan.open;
}

std::string optional_dollars(const std::optional<Dollars>& cost) {
  return cost ? dollars_text(Dollars(cost->value() * kThousand)) : "—";
}

Table table_of(const RecordedPlan& plan) {
  Table table{{{"GPU"}, {"memory", Align::right}}, {}};
  if (!plan.open.empty()) table.columns.push_back({plan.open, Align::right});
  for (const std::string& name :
       {std::string("reserved"), std::string("a step"), std::string("MFU"), thousand_of(plan)}) {
    table.columns.push_back({name, Align::right});
  }
  for (const RankedRun& planned : plan.runs) {
    if (table.rows.size() == kRowsShown) break;
    const bool fits = does_fit(planned);
    const RecordedTime* time = time_of(planned);
    Row row{{planned.run.gpu, sized_text(planned.run.available)},
            fit_marker(planned.run),
            fit_tone(planned.run)};
    if (!plan.open.empty()) row.cells.push_back(fits ? grouped(planned.units) : "—");
    row.cells.push_back(fits ? sized_text(planned.run.played.end.reserved.peak) : "—");
    row.cells.push_back(time == nullptr ? "—" : seconds_text(time->step));
    row.cells.push_back(
        time == nullptr || time->utilisation <= 0 ? "—" : percent_text(time->utilisation));
    row.cells.push_back(fits ? optional_dollars(planned.cost()) : "—");
    table.rows.push_back(std::move(row));
  }
  return table;
}

Heading heading_of(const RecordedPlan& plan) {
  const RankedRun& first = plan.runs.front();
  if (!does_fit(first)) {
    return {fmt::format("{} fits none of {}", first.run.trace.file,
                        nouns_text(static_cast<std::int64_t>(plan.runs.size()), "GPU type"))};
  }
  std::string text = first.run.gpu;
  if (!plan.open.empty()) text += fmt::format(", {} {}", plan.open, grouped(first.units));
  if (const RecordedTime* time = time_of(first))
    text += ": " + seconds_text(time->step) + " a step";
  if (const auto cost = first.cost()) {
    text += fmt::format(", {} for {}", optional_dollars(cost), thousand_of(plan));
  }
  return {text};
}

/// Why the first whose step has no time has none, and how many there are.
std::string untimed_text(const RecordedPlan& plan) {
  const auto is_untimed = [](const RankedRun& planned) {
    return does_fit(planned) && std::holds_alternative<Unavailable>(planned.run.time);
  };
  const auto first = std::ranges::find_if(plan.runs, is_untimed);
  if (first == plan.runs.end()) return {};
  const std::int64_t others = std::ranges::count_if(plan.runs, is_untimed) - 1;
  std::string text = fmt::format("A step has no time on {}: {}.", first->run.gpu,
                                 std::get<Unavailable>(first->run.time).sentence);
  if (others > 0) text += fmt::format(" So it is with {}.", nouns_text(others, "other GPU type"));
  return text;
}

Page page_of(const RecordedPlan& plan) {
  Page page{{heading_of(plan), table_of(plan)}};
  const RankedRun& first = plan.runs.front();
  if (plan.runs.size() > kRowsShown) {
    const auto others = static_cast<std::int64_t>(plan.runs.size() - kRowsShown);
    const std::int64_t unfit = std::ranges::count_if(
        plan.runs, [](const RankedRun& planned) { return !does_fit(planned); });
    page.parts.emplace_back(
        Paragraph{fmt::format("{} are left out, which --format csv and json have; of all {}.",
                              nouns_text(others, "other GPU type"),
                              unfit == 0 ? "none is too small" : grouped(unfit) + " do not fit"),
                  Tone::faint});
  }
  if (first.run.at && does_fit(first)) {
    page.parts.emplace_back(Paragraph{range_sentence(*first.run.at), is_extrapolated(*first.run.at)
                                                                         ? Tone::uncertain
                                                                         : Tone::faint});
  }
  for (Part& part : recorded_caveats(first.run)) page.parts.push_back(std::move(part));
  if (!plan.open.empty()) {
    page.parts.emplace_back(Paragraph{
        fmt::format("Of {} the largest that fits and its halves are tried: each GPU has the one "
                    "with the least time a unit.",
                    plan.open),
        Tone::faint});
  }
  if (const std::string text = untimed_text(plan); !text.empty()) {
    page.parts.emplace_back(Paragraph{text, Tone::uncertain});
  }
  page.parts.emplace_back(Paragraph{
      "One GPU a process, as it was recorded. Prices are those of memest gpus.", Tone::faint});
  return page;
}

Table rows_of(const RecordedPlan& plan) {
  Table table{{{"gpu"},
               {"memory_bytes"},
               {"fits"},
               {"units"},
               {"reserved_peak_bytes"},
               {"step_seconds"},
               {"dollars_a_unit"}},
              {}};
  for (const RankedRun& planned : plan.runs) {
    const bool fits = does_fit(planned);
    const RecordedTime* time = time_of(planned);
    const auto cost = fits ? planned.cost() : std::nullopt;
    table.rows.push_back({{planned.run.gpu, std::to_string(planned.run.available.value()),
                           fit_word(planned.run), fits ? std::to_string(planned.units) : "",
                           fits ? std::to_string(planned.run.played.end.reserved.peak.value()) : "",
                           time == nullptr ? "" : exact_text(time->step.value()),
                           cost ? exact_text(cost->value()) : ""},
                          "",
                          {}});
  }
  return table;
}

Json json_of(const RankedRun& planned) {
  Json json{{"gpu", planned.run.gpu}, {"available_bytes", planned.run.available.value()}};
  put_fits(planned.run, json);
  if (!does_fit(planned)) return json;
  json["units"] = planned.units;
  json["allocated_peak_bytes"] = planned.run.played.end.allocated.peak.value();
  json["reserved_peak_bytes"] = planned.run.played.end.reserved.peak.value();
  if (planned.run.at) add_point(*planned.run.at, json);
  put_time(planned.run.time, json);
  if (const auto cost = planned.cost()) json["dollars_a_unit"] = cost->value();
  return json;
}

}  // namespace

std::optional<Seconds> RankedRun::seconds() const {
  const auto* time = std::get_if<RecordedTime>(&run.time);
  if (time == nullptr) return std::nullopt;
  return Seconds(time->step.value() / static_cast<double>(units));
}

std::optional<Dollars> RankedRun::cost() const {
  const auto taken = seconds();
  if (!taken || !run.price) return std::nullopt;
  return *run.price * *taken;
}

void rank(RecordedPlan& plan) {
  std::ranges::stable_sort(
      plan.runs, {}, [&](const RankedRun& planned) { return measure_of(planned, plan.objective); });
}

Report report_plan(const RecordedPlan& plan, const Question& question) {
  return {
      page_of(plan), rows_of(plan), text_for(question, [&] {
        Json json = new_answer();
        json["file"] = plan.runs.front().run.trace.file;
        json["objective"] = name_of(plan.objective);
        if (!plan.open.empty()) json["open"] = plan.open;
        json["plans"] = Json::array();
        for (const RankedRun& planned : plan.runs) json["plans"].push_back(json_of(planned));
        json["provenance"] = {{"method", "replay"}, {"versions", {{"memest", question.version}}}};
        return json;
      })};
}

}  // namespace memest
