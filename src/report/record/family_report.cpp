#include "memest/report/record/family_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "memest/report/numbers.hpp"
#include "report/pages/json.hpp"
#include "report/pages/nouns.hpp"
#include "report/record/places_table.hpp"

namespace memest {
namespace {

constexpr std::size_t kFormulasShown = 12;

std::string optional_size(const std::optional<Bytes>& bytes) {
  return bytes ? sized_text(*bytes) : "—";
}

std::vector<SizePoint> points_of_run(const FamilyRun& run) {
  std::vector<SizePoint> points = run.fitted.family.fitted;
  points.push_back(run.fitted.family.held_out);
  return points;
}

Heading family_heading(const FamilyRun& run) {
  const RecordedFamily& family = run.fitted.family;
  const auto formulas = static_cast<std::int64_t>(family.formulas.size());
  return {fmt::format("{}{} in {}: {}", family.rank.empty() ? "" : "rank " + family.rank + ": ",
                      nouns_text(run.fitted.held_out.requests, "request"),
                      fmt::join(family.names(), " and "), nouns_text(formulas, "formula"))};
}

Table points_table(const FamilyRun& run) {
  Table table;
  for (const std::string& name : run.fitted.family.names()) {
    table.columns.push_back({name, Align::right});
  }
  table.columns.push_back({"allocated", Align::right});
  table.columns.push_back({"reserved", Align::right});
  table.columns.push_back({""});
  const std::vector<SizePoint> points = points_of_run(run);
  for (std::size_t i = 0; i < points.size(); ++i) {
    Row row;
    for (const std::int64_t value : points[i]) row.cells.push_back(grouped(value));
    row.cells.push_back(sized_text(run.peaks[i].allocated));
    row.cells.push_back(optional_size(run.peaks[i].reserved));
    row.cells.emplace_back(i + 1 == points.size() ? "held out" : "");
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// The point in words: "batch 3, seq 640".
std::string spoken(const std::vector<std::string>& names, const SizePoint& point) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : ", ") + names[i] + " " + grouped(point[i]);
  }
  return text;
}

Paragraph held_out_sentence(const FamilyRun& run) {
  const RecordedFamily& family = run.fitted.family;
  const HeldOut& held_out = run.fitted.held_out;
  const std::string within =
      held_out.within_steps == 0
          ? ""
          : fmt::format("{} within the steps in which kernels' workspaces grow ({} at most), ",
                        grouped(held_out.within_steps), sized_text(held_out.most_below));
  const char* peaks = held_out.peaks.reserved ? "allocated and reserved" : "allocated";
  return {fmt::format("held out: {}: equal in {} of {} requests, {}{} equal",
                      spoken(family.names(), family.held_out),
                      grouped(held_out.requests - held_out.within_steps),
                      grouped(held_out.requests), within, peaks),
          Tone::good};
}

Table places_table(const FamilyRun& run) {
  Table table{{{"asked for at"},
               {"allocations", Align::right},
               {"bytes", Align::right},
               {"bytes requested"}},
              {}};
  const std::vector<std::string> names = run.fitted.family.names();
  for (const PlaceFormula& use : run.places) {
    if (table.rows.size() == kFormulasShown) break;
    table.rows.push_back({{asking_text(use.place), grouped(use.allocations), sized_text(use.bytes),
                           use.formula.text(names)},
                          "",
                          {}});
  }
  return table;
}

void add_family(const FamilyRun& run, Page& page) {
  const RecordedFamily& family = run.fitted.family;
  page.parts.emplace_back(family_heading(run));
  page.parts.emplace_back(points_table(run));
  page.parts.emplace_back(held_out_sentence(run));
  if (family.work) {
    page.parts.emplace_back(Paragraph{
        fmt::format("held out: the work of a step: equal in all of {}",
                    nouns_text(static_cast<std::int64_t>(family.work->lines.size()), "line")),
        Tone::good});
  } else if (!family.no_work.empty()) {
    page.parts.emplace_back(
        Paragraph{"A step has no time at other sizes: " + family.no_work + ".", Tone::uncertain});
  }
  page.parts.emplace_back(
      Paragraph{"At the peak at " + spoken(family.names(), run.shown) + ":", Tone::plain});
  page.parts.emplace_back(places_table(run));
  if (run.file.empty()) {
    page.parts.emplace_back(Paragraph{
        "--output FILE writes the formulas, and memest replay FILE --at answers for other sizes.",
        Tone::faint});
    return;
  }
  std::string flags;
  for (std::size_t i = 0; i < family.varied.size(); ++i) {
    flags += fmt::format(" --at {}={}", family.varied[i].name, 2 * run.shown[i]);
  }
  page.parts.emplace_back(Paragraph{"Other sizes: memest replay " + run.file + flags, Tone::faint});
}

std::vector<Part> unknown_sizes(const VariedProgram& program) {
  std::vector<Part> parts;
  for (const std::string& size : program.taken_as_0) {
    parts.emplace_back(Paragraph{size + " are not known, and taken as 0: a GPU may reserve more.",
                                 Tone::uncertain});
  }
  if (!program.unanswered.empty()) {
    parts.emplace_back(Paragraph{
        fmt::format(
            "The program called what the null device does not know, and was told that it is "
            "not supported: {}.",
            fmt::join(program.unanswered, ", ")),
        Tone::uncertain});
  }
  return parts;
}

Table family_rows(const VariedProgram& program) {
  Table table{{{"rank"}, {"place"}, {"allocations"}, {"bytes"}, {"requested_bytes"}}, {}};
  for (const FamilyRun& run : program.processes) {
    for (const PlaceFormula& use : run.places) {
      table.rows.push_back(
          {{run.fitted.family.rank, use.place, std::to_string(use.allocations),
            std::to_string(use.bytes.value()), use.formula.text(run.fitted.family.names())},
           "",
           {}});
    }
  }
  return table;
}

Json point_json(const std::vector<std::string>& names, const SizePoint& point) {
  Json json = Json::object();
  for (std::size_t i = 0; i < names.size(); ++i) json[names[i]] = point[i];
  return json;
}

Json family_json(const FamilyRun& run) {
  const RecordedFamily& family = run.fitted.family;
  const std::vector<std::string> names = family.names();
  Json json{{"rank", family.rank},
            {"torch", family.torch},
            {"settings", family.trace.settings_text},
            {"requests", run.fitted.held_out.requests},
            {"formulas", family.formulas.size()},
            {"points", Json::array()}};
  const std::vector<SizePoint> points = points_of_run(run);
  for (std::size_t i = 0; i < points.size(); ++i) {
    Json point{{"at", point_json(names, points[i])},
               {"held_out", i + 1 == points.size()},
               {"allocated_peak_bytes", run.peaks[i].allocated.value()}};
    if (run.peaks[i].reserved) point["reserved_peak_bytes"] = run.peaks[i].reserved->value();
    json["points"].push_back(std::move(point));
  }
  json["held_out"] = {
      {"at", point_json(names, family.held_out)},
      {"equal_requests", run.fitted.held_out.requests - run.fitted.held_out.within_steps},
      {"requests_within_steps", run.fitted.held_out.within_steps},
      {"peaks_equal", true}};
  if (family.work) {
    json["work"] = {{"of", family.work->of}, {"lines", family.work->lines.size()}};
  } else if (!family.no_work.empty()) {
    put_null(json, "work", family.no_work);
  }
  json["peak_at"] = point_json(names, run.shown);
  json["peak_places"] = Json::array();
  for (const PlaceFormula& use : run.places) {
    json["peak_places"].push_back({{"place", use.place},
                                   {"allocations", use.allocations},
                                   {"bytes", use.bytes.value()},
                                   {"requested_bytes", use.formula.text(names)}});
  }
  if (!run.file.empty()) json["file"] = run.file;
  return json;
}

}  // namespace

std::string point_text(const std::vector<std::string>& names, const SizePoint& point) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : " ") + names[i] + "=" + std::to_string(point[i]);
  }
  return text;
}

Report report_families(const VariedProgram& program, const Question& question) {
  Page page;
  for (const FamilyRun& run : program.processes) add_family(run, page);
  for (Part& part : unknown_sizes(program)) page.parts.push_back(std::move(part));
  std::string text = text_for(question, [&] {
    Json json = new_answer();
    json["command"] = program.command;
    json["gpu"] = program.gpu;
    json["capacity_bytes"] = program.capacity.value();
    json["context_bytes"] = program.context.value();
    json["families"] = Json::array();
    for (const FamilyRun& run : program.processes) json["families"].push_back(family_json(run));
    json["unanswered"] = program.unanswered;
    json["taken_as_0"] = program.taken_as_0;
    json["provenance"] = {{"method", "record"}, {"versions", {{"memest", question.version}}}};
    return json;
  });
  return {std::move(page), family_rows(program), std::move(text)};
}

}  // namespace memest
