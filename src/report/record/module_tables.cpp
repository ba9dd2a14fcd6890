#include "report/record/module_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/pages/nouns.hpp"
#include "report/record/alike_modules.hpp"
#include "report/record/phase_text.hpp"
#include "report/record/work_report.hpp"

namespace memest {
namespace {

constexpr std::size_t kKeptShown = 12;
constexpr std::size_t kTimesShown = 8;

/// Modules that keep as much each.
struct KeptRow {
  std::string name;
  std::int64_t modules = 0;
  std::int64_t allocations = 0;
  Bytes bytes;
};

std::vector<KeptRow> kept_rows(const KeptForBackward& kept, const AllocatorTrace& trace) {
  std::vector<NumberedModule> numbered;
  for (const ModuleUse& use : kept.modules) {
    numbered.push_back({trace.modules[use.module], use.bytes.value()});
  }
  std::vector<KeptRow> rows;
  for (AlikeModules& alike : alike_modules(numbered)) {
    KeptRow row{std::move(alike.name), static_cast<std::int64_t>(alike.members.size()), 0, {}};
    for (const std::size_t member : alike.members) {
      row.allocations += kept.modules[member].allocations;
      row.bytes += kept.modules[member].bytes;
    }
    if (row.name.empty()) row.name = "outside of all modules";
    rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(rows, std::ranges::greater(), &KeptRow::bytes);
  return rows;
}

Row cells_of(const KeptRow& row) {
  return {
      {row.name, grouped(row.modules), grouped(row.allocations), sized_text(row.bytes)}, "", {}};
}

struct TimeRow {
  std::string name;
  std::int64_t modules = 0;
  Seconds forward;
  Seconds backward;

  [[nodiscard]] Seconds both() const { return forward + backward; }
};

std::vector<TimeRow> time_rows(const RecordedTime& time) {
  std::vector<NumberedModule> numbered;
  for (const RecordedModuleTime& one : time.module_times) {
    numbered.push_back({time.modules[one.module], 0});
  }
  std::vector<TimeRow> rows;
  for (AlikeModules& alike : alike_modules(numbered)) {
    TimeRow row{std::move(alike.name), static_cast<std::int64_t>(alike.members.size()), {}, {}};
    for (const std::size_t member : alike.members) {
      row.forward += time.module_times[member].forward.seconds;
      row.backward += time.module_times[member].backward.seconds;
    }
    rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(rows, std::ranges::greater(), &TimeRow::both);
  return rows;
}

Json json_of(const RecordedWorkTime& time) {
  Json json = Json::object();
  put_amounts(time, json);
  return json;
}

}  // namespace

std::vector<Part> kept_parts(const KeptForBackward& kept, const AllocatorTrace& trace) {
  if (kept.modules.empty()) return {};
  Table table{{{"kept for the backward, made in"},
               {"modules", Align::right},
               {"allocations", Align::right},
               {"bytes", Align::right}},
              {}};
  const std::vector<KeptRow> rows = kept_rows(kept, trace);
  KeptRow rest;
  for (const KeptRow& row : rows) {
    if (table.rows.size() < kKeptShown) {
      table.rows.push_back(cells_of(row));
    } else {
      rest.modules += row.modules;
      rest.allocations += row.allocations;
      rest.bytes += row.bytes;
    }
  }
  if (rows.size() > kKeptShown) {
    rest.name = nouns_text(static_cast<std::int64_t>(rows.size() - kKeptShown), "other row");
    table.rows.push_back(cells_of(rest));
    table.rows.back().tone = Tone::faint;
  }
  return {Paragraph{fmt::format("What is allocated {} leaves {} for the backward:",
                                phase_text(kept.phase), sized_text(kept.bytes)),
                    Tone::plain},
          std::move(table)};
}

std::vector<Part> module_time_parts(const RecordedTime& time) {
  if (time.module_times.empty()) return {};
  Table table{{{"kernels of"},
               {"modules", Align::right},
               {"forward", Align::right},
               {"backward", Align::right}},
              {}};
  for (const TimeRow& row : time_rows(time)) {
    if (table.rows.size() == kTimesShown) break;
    table.rows.push_back({{row.name, grouped(row.modules), seconds_text(row.forward),
                           row.backward == Seconds() ? "—" : seconds_text(row.backward)},
                          "",
                          {}});
  }
  return {std::move(table)};
}

void put_kept(const KeptForBackward& kept, const AllocatorTrace& trace, Json& json) {
  if (kept.modules.empty()) return;
  Json modules = Json::array();
  for (const ModuleUse& use : kept.modules) {
    const RecordedModule& module = trace.modules[use.module];
    modules.push_back({{"module", module.name},
                       {"class", module.kind},
                       {"allocations", use.allocations},
                       {"bytes", use.bytes.value()}});
  }
  json["kept_for_backward"] = {
      {"phase", kept.phase}, {"bytes", kept.bytes.value()}, {"modules", std::move(modules)}};
}

Json module_times_json(const RecordedTime& time) {
  Json rows = Json::array();
  for (const RecordedModuleTime& one : time.module_times) {
    const RecordedModule& module = time.modules[one.module];
    rows.push_back({{"module", module.name},
                    {"class", module.kind},
                    {"forward", json_of(one.forward)},
                    {"backward", json_of(one.backward)}});
  }
  return rows;
}

}  // namespace memest
