#include "report/record/work_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/pages/nouns.hpp"
#include "report/record/module_tables.hpp"

namespace memest {
namespace {

constexpr std::size_t kOperatorsShown = 8;
constexpr std::size_t kUnknownShown = 4;

/// "Step 2", "The program".
std::string subject_of(const RecordedTime& time) {
  constexpr std::string_view kStep = "step";
  return time.of.starts_with(kStep) ? "Step " + time.of.substr(kStep.size()) : "The program";
}

std::string sentence_of(const RecordedTime& time, const std::string& gpu) {
  std::string text =
      fmt::format("{} takes {} on {} ({} to {}): {}", subject_of(time), seconds_text(time.step),
                  gpu, seconds_text(time.low), seconds_text(time.high), flops_text(time.flops));
  if (time.utilisation > 0) text += ", " + percent_text(time.utilisation) + " of its peak";
  text += fmt::format(
      "; its busiest stream works {} of it, and the host asks for {} kernels, messages and copies "
      "in {}.",
      seconds_text(time.device), grouped(time.launches), seconds_text(time.host));
  if (time.of == "step1") text += " The first step has the program's set-up in it.";
  if (time.cut_off) text += " There was more work than is recorded.";
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
    Json row{{"name", time.name}};
    put_amounts(time, row);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

void put_amounts(const RecordedWorkTime& time, Json& json) {
  json["calls"] = time.calls;
  put(json, "flops", time.flops);
  put(json, "bytes", time.bytes);
  put(json, "seconds", time.seconds.value());
}

std::vector<Part> time_parts(const RecordedStepTime& time, const std::string& gpu) {
  if (const auto* unavailable = std::get_if<Unavailable>(&time)) {
    return {Paragraph{"A step has no time: " + unavailable->sentence + ".", Tone::uncertain}};
  }
  const auto* known = std::get_if<RecordedTime>(&time);
  if (known == nullptr) return {};
  std::vector<Part> parts;
  parts.emplace_back(Paragraph{sentence_of(*known, gpu), Tone::plain});
  if (known->phases.size() > 1) {
    parts.emplace_back(table_of(known->phases, "phase", known->phases.size()));
  }
  parts.emplace_back(table_of(known->kinds, "work", known->kinds.size()));
  parts.emplace_back(table_of(known->operators, "operator", kOperatorsShown));
  for (Part& part : module_time_parts(*known)) parts.push_back(std::move(part));
  if (!known->unknown.empty()) {
    parts.emplace_back(Paragraph{unknown_text(*known), Tone::uncertain});
  }
  return parts;
}

void put_time(const RecordedStepTime& time, Json& json) {
  if (const auto* unavailable = std::get_if<Unavailable>(&time)) {
    put_null(json, "time", unavailable->sentence);
    return;
  }
  const auto* known = std::get_if<RecordedTime>(&time);
  if (known == nullptr) return;
  json["time"] = {{"of", known->of},
                  {"cut_off", known->cut_off},
                  {"step_seconds", known->step.value()},
                  {"step_seconds_low", known->low.value()},
                  {"step_seconds_high", known->high.value()},
                  {"device_seconds", known->device.value()},
                  {"host_seconds", known->host.value()},
                  {"launches", known->launches},
                  {"utilisation", known->utilisation},
                  {"phases", json_of(known->phases)},
                  {"kinds", json_of(known->kinds)},
                  {"operators", json_of(known->operators)},
                  {"modules", module_times_json(*known)},
                  {"unknown", known->unknown},
                  {"provenance", text_of(known->origin)}};
  put(json["time"], "flops", known->flops);
}

}  // namespace memest
