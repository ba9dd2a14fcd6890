#include "report/record/work_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/pages/nouns.hpp"

namespace memest {
namespace {

constexpr std::size_t kOperatorsShown = 8;
constexpr std::size_t kUnknownShown = 4;

/// "Step 2", "The program".
std::string subject_of(const RecordedWork& work) {
  constexpr std::string_view kStep = "step";
  return work.of.starts_with(kStep) ? "Step " + work.of.substr(kStep.size()) : "The program";
}

std::string sentence_of(const RecordedWork& work, const RecordedTime& time,
                        const std::string& gpu) {
  std::string text =
      fmt::format("{} takes {} on {} ({} to {}): {}", subject_of(work), seconds_text(time.step),
                  gpu, seconds_text(time.low), seconds_text(time.high), flops_text(time.flops));
  if (time.utilisation > 0) text += ", " + percent_text(time.utilisation) + " of its peak";
  text += fmt::format("; its busiest stream works {} of it, and the host asks for {} in {}.",
                      seconds_text(time.device), nouns_text(time.launches, "kernel"),
                      seconds_text(time.host));
  if (work.of == "step1") text += " The first step has the program's set-up in it.";
  if (work.cut_off) text += " There was more work than is recorded.";
  return text;
}

Table table_of(const std::vector<RecordedWorkTime>& times, const char* what, std::size_t most) {
  Table table{{{what},
               {"calls", Align::right},
               {"FLOPs", Align::right},
               {"bytes", Align::right},
               {"time", Align::right}},
              {}};
  for (const RecordedWorkTime& time : times) {
    if (table.rows.size() == most) break;
    table.rows.push_back(
        {{time.name, grouped(time.calls), time.flops == Flops() ? "—" : flops_text(time.flops),
          time.bytes == Bytes() ? "—" : sized_text(time.bytes), seconds_text(time.seconds)},
         "",
         {}});
  }
  return table;
}

std::string unknown_text(const RecordedTime& time) {
  std::string text = "Of " + nouns_text(static_cast<std::int64_t>(time.unknown.size()), "kernel") +
                     " only the name is known, so that a step may take longer: ";
  for (std::size_t i = 0; i < std::min(time.unknown.size(), kUnknownShown); ++i) {
    text += (i == 0 ? "" : ", ") + time.unknown[i];
  }
  return text + (time.unknown.size() > kUnknownShown ? ", ..." : ".");
}

Json json_of(const std::vector<RecordedWorkTime>& times) {
  Json rows = Json::array();
  for (const RecordedWorkTime& time : times) {
    Json row{{"name", time.name}, {"calls", time.calls}};
    put(row, "flops", time.flops);
    put(row, "bytes", time.bytes);
    put(row, "seconds", time.seconds.value());
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::vector<Part> time_parts(const ProcessRun& process, const std::string& gpu) {
  if (const auto* unavailable = std::get_if<Unavailable>(&process.time)) {
    return {Paragraph{"A step has no time: " + unavailable->sentence + ".", Tone::uncertain}};
  }
  const auto* time = std::get_if<RecordedTime>(&process.time);
  if (time == nullptr) return {};
  std::vector<Part> parts;
  parts.emplace_back(Paragraph{sentence_of(*process.recording.work, *time, gpu), Tone::plain});
  parts.emplace_back(table_of(time->kinds, "work", time->kinds.size()));
  parts.emplace_back(table_of(time->operators, "operator", kOperatorsShown));
  if (!time->unknown.empty()) {
    parts.emplace_back(Paragraph{unknown_text(*time), Tone::uncertain});
  }
  return parts;
}

void put_time(const ProcessRun& process, Json& json) {
  if (const auto* unavailable = std::get_if<Unavailable>(&process.time)) {
    put_null(json, "time", unavailable->sentence);
    return;
  }
  const auto* time = std::get_if<RecordedTime>(&process.time);
  if (time == nullptr) return;
  json["time"] = {
      {"of", process.recording.work->of},        {"cut_off", process.recording.work->cut_off},
      {"step_seconds", time->step.value()},      {"step_seconds_low", time->low.value()},
      {"step_seconds_high", time->high.value()}, {"device_seconds", time->device.value()},
      {"host_seconds", time->host.value()},      {"launches", time->launches},
      {"utilisation", time->utilisation},        {"kinds", json_of(time->kinds)},
      {"operators", json_of(time->operators)},   {"unknown", time->unknown},
      {"provenance", text_of(time->origin)}};
  put(json["time"], "flops", time->flops);
}

}  // namespace memest
