#include "memest/report/replay_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/pages/json.hpp"
#include "report/pages/nouns.hpp"

namespace memest {
namespace {

bool is_equal(const ReplayedTrace& replayed) { return !replayed.result.difference; }

std::string title_of(const std::vector<ReplayedTrace>& traces) {
  const auto whole = static_cast<std::int64_t>(traces.size());
  const std::int64_t equal = std::count_if(traces.begin(), traces.end(), is_equal);
  if (equal < whole) return fmt::format("{} of {} equal", equal, nouns_text(whole, "trace"));
  std::int64_t statistics = 0;
  std::int64_t segments = 0;
  for (const ReplayedTrace& replayed : traces) {
    statistics += replayed.result.statistics;
    segments += replayed.result.segment_events;
  }
  return fmt::format("{}: {} and {} equal", nouns_text(whole, "trace"),
                     nouns_text(statistics, "statistic"), nouns_text(segments, "segment event"));
}

std::string sentence_of(const ReplayedTrace& replayed) {
  const ReplayDifference& difference = *replayed.result.difference;
  return fmt::format("{}:{}: {}: {} in the replay, {} in the trace", replayed.trace.file,
                     difference.line, difference.place, difference.replayed, difference.recorded);
}

/// "v125" of "traces/v125.trace.gz".
std::string stem_of(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  return name.substr(0, name.find('.', 1));
}

/// The most that a statistic came to at any marker.
Bytes most(const ReplayResult& result, TracedStatistic statistic) {
  std::int64_t bytes = 0;
  for (const auto& marker : result.markers) {
    bytes = std::max(bytes, marker[static_cast<std::size_t>(statistic)]);
  }
  return Bytes(bytes);
}

Table summary_of(const std::vector<ReplayedTrace>& traces) {
  Table table{{{"trace"},
               {"settings"},
               {"requests", Align::right},
               {"markers", Align::right},
               {"segments", Align::right},
               {"reserved", Align::right},
               {"retries", Align::right},
               {"ooms", Align::right}},
              {}};
  for (const ReplayedTrace& replayed : traces) {
    const ReplayResult& result = replayed.result;
    const bool equal = is_equal(replayed);
    table.rows.push_back(
        {{stem_of(replayed.trace.file), replayed.trace.settings_text, grouped(result.requests),
          std::to_string(result.markers.size()), std::to_string(result.segment_events),
          sized_text(most(result, TracedStatistic::reserved_peak)),
          std::to_string(result.end.retries), std::to_string(result.end.out_of_memory)},
         equal ? "✓" : "✗",
         equal ? Tone::plain : Tone::bad});
  }
  return table;
}

/// How many of a marker's statistics are equal: all, or those before the first that is not.
struct Agreement {
  std::size_t equal = 0;
  std::size_t recorded = 0;
};
Agreement agreement_of(const ReplayedTrace& replayed, std::size_t marker) {
  Agreement agreement;
  for (std::size_t i = 0; i < kTracedStatistics; ++i) {
    const auto& recorded = replayed.trace.markers[marker].statistics[i];
    if (!recorded) continue;
    ++agreement.recorded;
    if (*recorded == replayed.result.markers[marker][i]) ++agreement.equal;
  }
  return agreement;
}

Table markers_of(const ReplayedTrace& replayed) {
  Table table{{{"marker"},
               {"line", Align::right},
               {"allocated, B", Align::right},
               {"its peak, B", Align::right},
               {"reserved peak, B", Align::right},
               {"equal", Align::right}},
              {}};
  for (std::size_t i = 0; i < replayed.result.markers.size(); ++i) {
    const auto value = [&](TracedStatistic statistic) {
      return grouped(replayed.result.markers[i][static_cast<std::size_t>(statistic)]);
    };
    const TraceMarker& marker = replayed.trace.markers[i];
    const Agreement agreement = agreement_of(replayed, i);
    const bool equal = agreement.equal == agreement.recorded;
    table.rows.push_back(
        {{marker.name, std::to_string(marker.line), value(TracedStatistic::allocated_bytes),
          value(TracedStatistic::allocated_peak), value(TracedStatistic::reserved_peak),
          fmt::format("{} of {}", agreement.equal, agreement.recorded)},
         equal ? "✓" : "✗",
         equal ? Tone::plain : Tone::bad});
  }
  return table;
}

Page page_of(const std::vector<ReplayedTrace>& traces) {
  Page page{{Heading{title_of(traces)}, summary_of(traces)}};
  if (traces.size() == 1 && !traces.front().result.markers.empty()) {
    page.parts.emplace_back(markers_of(traces.front()));
  }
  for (const ReplayedTrace& replayed : traces) {
    if (!is_equal(replayed)) {
      page.parts.emplace_back(Paragraph{sentence_of(replayed), Tone::bad});
    }
  }
  return page;
}

Table records_of(const std::vector<ReplayedTrace>& traces) {
  Table table{
      {{"trace"}, {"line"}, {"marker"}, {"statistic"}, {"replayed"}, {"recorded"}, {"equal"}}, {}};
  for (const ReplayedTrace& replayed : traces) {
    for (std::size_t m = 0; m < replayed.result.markers.size(); ++m) {
      const TraceMarker& marker = replayed.trace.markers[m];
      for (std::size_t i = 0; i < kTracedStatistics; ++i) {
        if (!marker.statistics[i]) continue;
        const std::int64_t value = replayed.result.markers[m][i];
        table.rows.push_back(
            {{replayed.trace.file, std::to_string(marker.line), marker.name,
              std::string(name_of(static_cast<TracedStatistic>(i))), std::to_string(value),
              std::to_string(*marker.statistics[i]), value == *marker.statistics[i] ? "yes" : "no"},
             "",
             {}});
      }
    }
  }
  return table;
}

Json json_of(const ReplayedTrace& replayed, std::size_t marker) {
  Json statistics = Json::object();
  for (std::size_t i = 0; i < kTracedStatistics; ++i) {
    const auto& recorded = replayed.trace.markers[marker].statistics[i];
    if (!recorded) continue;
    statistics[std::string(name_of(static_cast<TracedStatistic>(i)))] = {
        {"replayed", replayed.result.markers[marker][i]}, {"recorded", *recorded}};
  }
  const Agreement agreement = agreement_of(replayed, marker);
  return {{"name", replayed.trace.markers[marker].name},
          {"line", replayed.trace.markers[marker].line},
          {"equal", agreement.equal == agreement.recorded},
          {"statistics", std::move(statistics)}};
}

Json json_of(const ReplayedTrace& replayed) {
  const AllocatorTrace& trace = replayed.trace;
  const ReplayResult& result = replayed.result;
  Json json{{"file", trace.file},
            {"case", trace.name},
            {"settings", trace.settings_text},
            {"device_bytes", trace.device_memory.value()},
            {"equal", is_equal(replayed)},
            {"requests", result.requests},
            {"segment_events", result.segment_events},
            {"retries", result.end.retries},
            {"ooms", result.end.out_of_memory},
            {"markers", Json::array()}};
  if (trace.capacity) json["capacity_bytes"] = trace.capacity->value();
  for (std::size_t i = 0; i < result.markers.size(); ++i) {
    json["markers"].push_back(json_of(replayed, i));
  }
  if (const auto& difference = result.difference) {
    json["difference"] = {{"line", difference->line},
                          {"place", difference->place},
                          {"replayed", difference->replayed},
                          {"recorded", difference->recorded}};
  }
  return json;
}

}  // namespace

Report report_replay(const std::vector<ReplayedTrace>& traces, const Question& question) {
  Json json = new_answer();
  json["equal"] = std::all_of(traces.begin(), traces.end(), is_equal);
  json["traces"] = Json::array();
  for (const ReplayedTrace& replayed : traces) json["traces"].push_back(json_of(replayed));
  json["provenance"] = {{"method", "replay"}, {"versions", {{"memest", question.version}}}};
  return {page_of(traces), records_of(traces), text_of(json)};
}

}  // namespace memest
