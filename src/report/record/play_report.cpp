#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "memest/memory/recorded_use.hpp"
#include "memest/report/numbers.hpp"
#include "memest/report/replay_report.hpp"
#include "memest/units/text.hpp"
#include "report/pages/json.hpp"
#include "report/pages/nouns.hpp"
#include "report/record/phase_text.hpp"
#include "report/record/played_fit.hpp"
#include "report/record/played_point.hpp"
#include "report/record/work_report.hpp"

namespace memest {
namespace {

/// Whether every request that was recorded is granted.
bool is_granted(const PlayedRun& run) { return !run.played.failed; }

bool does_fit(const PlayedRun& run) { return fits(run).value_or(false); }

/// The place that asks for what fails; empty where none is known.
std::string failing_place(const PlayedRun& run) {
  const TraceEvent& event = run.trace.events[*run.played.failed];
  if (event.kind == TraceEventKind::out_of_memory) return run.trace.failed_at;
  return std::string(run.trace.place_of(event.number));
}

std::string failing_sentence(const PlayedRun& run) {
  const std::size_t failed = *run.played.failed;
  const TraceEvent& event = run.trace.events[failed];
  const std::string place = failing_place(run);
  return fmt::format(
      "{}:{}: out of memory{} {}: {} asked for{}, {} allocated and {} reserved", played_name(run),
      event.line, run.gpu.empty() ? "" : " on " + run.gpu, phase_text(phase_of(run.trace, failed)),
      sized_text(event.size), place.empty() ? "" : " at " + place,
      sized_text(run.played.end.allocated.current), sized_text(run.played.end.reserved.current));
}

/// The cost of a thousand steps; nothing where the step has no time, or the GPU no price.
std::optional<Dollars> cost_of_steps(const PlayedRun& run) {
  constexpr double kPriced = 1000;
  const auto* time = std::get_if<RecordedTime>(&run.time);
  if (time == nullptr || !run.price) return std::nullopt;
  return *run.price * Seconds(kPriced * time->step.value());
}

/// Several GPU types beside each other.
Table gpus_of(const std::vector<PlayedRun>& runs) {
  Table table{{{"trace"},
               {"GPU"},
               {"memory", Align::right},
               {"reserved", Align::right},
               {"a step", Align::right},
               {"1,000 steps", Align::right}},
              {}};
  for (const PlayedRun& run : runs) {
    const auto* time = does_fit(run) ? std::get_if<RecordedTime>(&run.time) : nullptr;
    const std::optional<Dollars> cost = does_fit(run) ? cost_of_steps(run) : std::nullopt;
    table.rows.push_back(
        {{played_name(run), run.gpu, sized_text(run.available),
          sized_text(run.played.end.reserved.peak),
          time == nullptr ? "—" : seconds_text(time->step), cost ? dollars_text(*cost) : "—"},
         fit_marker(run),
         fit_tone(run)});
  }
  return table;
}

Table table_of(const std::vector<PlayedRun>& runs) {
  Table table{{{"trace"},
               {"settings"},
               {"memory", Align::right},
               {"allocated", Align::right},
               {"reserved", Align::right},
               {"retries", Align::right}},
              {}};
  for (const PlayedRun& run : runs) {
    const AllocatorStatistics& end = run.played.end;
    table.rows.push_back(
        {{played_name(run), run.settings, sized_text(run.available), sized_text(end.allocated.peak),
          sized_text(end.reserved.peak), std::to_string(end.retries)},
         fit_marker(run),
         fit_tone(run)});
  }
  return table;
}

/// Whether it is an answer, not the value behind the largest that fits.
bool is_asked_for(const PlayedRun& run) { return !run.at || !run.at->is_next; }

std::string single_sentence(const PlayedRun& run) {
  const AllocatorStatistics& end = run.played.end;
  const std::string of = sized_text(run.available) + (run.gpu.empty() ? "" : ", " + run.gpu);
  if (!is_granted(run)) return "does not fit in " + of;
  if (!run.whole) {
    return fmt::format("{} allocated, {} reserved in {}, until the program failed",
                       sized_text(end.allocated.peak), sized_text(end.reserved.peak), of);
  }
  return fmt::format("{} allocated, {} reserved: fits in {}", sized_text(end.allocated.peak),
                     sized_text(end.reserved.peak), of);
}

Page page_of(const std::vector<PlayedRun>& runs) {
  Page page;
  const std::int64_t whole = std::ranges::count_if(runs, is_asked_for);
  const bool on_gpus =
      std::ranges::any_of(runs, [&](const PlayedRun& run) { return run.gpu != runs.front().gpu; });
  const std::int64_t fitting = std::ranges::count_if(
      runs, [](const PlayedRun& run) { return is_asked_for(run) && does_fit(run); });
  if (runs.front().at && runs.front().at->largest) {
    for (const PlayedRun& run : runs) {
      if (is_asked_for(run)) page.parts.emplace_back(Heading{largest_sentence(run, does_fit(run))});
    }
  } else if (runs.size() == 1) {
    page.parts.emplace_back(Heading{single_sentence(runs.front())});
  } else {
    page.parts.emplace_back(Heading{
        fmt::format("{} of {} fit", fitting, nouns_text(whole, on_gpus ? "run" : "trace"))});
  }
  page.parts.emplace_back(on_gpus ? gpus_of(runs) : table_of(runs));
  std::string told;
  for (const PlayedRun& run : runs) {
    if (run.at && is_asked_for(run)) {
      page.parts.emplace_back(Paragraph{range_sentence(*run.at),
                                        is_extrapolated(*run.at) ? Tone::uncertain : Tone::faint});
    }
    if (!is_granted(run)) page.parts.emplace_back(Paragraph{failing_sentence(run), Tone::bad});
    const bool is_first = run.trace.file != told;  // several GPUs play one file
    if (is_asked_for(run) && is_first) {
      for (Part& part : recorded_caveats(run)) page.parts.push_back(std::move(part));
    }
    told = run.trace.file;
    if (on_gpus) continue;
    for (Part& part : time_parts(run.time, run.gpu)) page.parts.push_back(std::move(part));
  }
  return page;
}

Table rows_of(const std::vector<PlayedRun>& runs) {
  Table table{{{"trace"},
               {"settings"},
               {"memory_bytes"},
               {"fits"},
               {"allocated_peak_bytes"},
               {"reserved_peak_bytes"},
               {"retries"},
               {"gpu"},
               {"step_seconds"}},
              {}};
  for (const PlayedRun& run : runs) {
    const AllocatorStatistics& end = run.played.end;
    const auto* time = std::get_if<RecordedTime>(&run.time);
    table.rows.push_back({{played_name(run), run.settings, std::to_string(run.available.value()),
                           fit_word(run), std::to_string(end.allocated.peak.value()),
                           std::to_string(end.reserved.peak.value()), std::to_string(end.retries),
                           run.gpu, time == nullptr ? "" : exact_text(time->step.value())},
                          "",
                          {}});
  }
  return table;
}

Json json_of(const PlayedRun& run) {
  const AllocatorStatistics& end = run.played.end;
  Json json{{"file", run.trace.file},
            {"settings", run.settings},
            {"available_bytes", run.available.value()},
            {"fits", nullptr},
            {"allocated_peak_bytes", end.allocated.peak.value()},
            {"reserved_peak_bytes", end.reserved.peak.value()},
            {"retries", end.retries}};
  put_fits(run, json);
  if (run.at) add_point(*run.at, json);
  if (!run.gpu.empty()) json["gpu"] = run.gpu;
  put_time(run.time, json);
  if (const auto cost = cost_of_steps(run)) json["dollars_per_1000_steps"] = cost->value();
  if (is_granted(run)) return json;
  const TraceEvent& event = run.trace.events[*run.played.failed];
  json["out_of_memory"] = {{"line", event.line},
                           {"phase", phase_of(run.trace, *run.played.failed)},
                           {"place", failing_place(run)},
                           {"size_bytes", event.size.value()},
                           {"allocated_bytes", end.allocated.current.value()},
                           {"reserved_bytes", end.reserved.current.value()}};
  return json;
}

}  // namespace

Report report_play(const std::vector<PlayedRun>& runs, const Question& question) {
  Json json = new_answer();
  json["fit"] = std::ranges::all_of(
      runs, [](const PlayedRun& run) { return !is_asked_for(run) || does_fit(run); });
  json["played"] = Json::array();
  for (const PlayedRun& run : runs) json["played"].push_back(json_of(run));
  json["provenance"] = {{"method", "replay"}, {"versions", {{"memest", question.version}}}};
  return {page_of(runs), rows_of(runs), text_of(json)};
}

}  // namespace memest
