// Predicted steps beside the trace of a run: peaks, and the allocations that differ.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "memest/graph/parameters.hpp"
#include "memest/report/diff_report.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/diff/figures.hpp"
#include "report/pages/json.hpp"
#include "report/pages/modelled.hpp"
#include "report/pages/title.hpp"
#include "report/timeline/difference_text.hpp"

namespace memest {
namespace {

constexpr std::size_t kShownRows = 20;
constexpr const char* kNoSegments = "the record has no segments";
constexpr const char* kNoDevice = "a trace of the allocator has nothing that stands outside of it";
constexpr const char* kNoSteps = "a trace of the allocator has no step's seconds";
constexpr const char* kNoCounterpart = "the other side allocates nothing like it";
constexpr const char* kNoStack = "no Python frame, as of autograd's thread";

/// Margins are shares of what is reserved; tensors alone are held to the same.
BytesInterval interval_of(const TraceComparison& comparison, Bytes predicted) {
  const Margin& margin = margin_of(comparison.job.margins().replay, comparison.job.recompute());
  return {predicted, predicted - share_rounded_up(predicted, margin.low),
          predicted + share_rounded_up(predicted, margin.high)};
}

/// A peak of both sides.
struct Peak {
  const char* name;
  Bytes predicted;
  std::optional<Bytes> measured;
};

std::vector<Peak> peaks_of(const TraceComparison& comparison) {
  const AllocatorStatistics& statistics = comparison.memory.replay.statistics;
  return {{"allocated peak", statistics.allocated.peak, comparison.peaks.allocated},
          {"reserved peak", statistics.reserved.peak, comparison.peaks.reserved}};
}

/// The peak by which a prediction is judged.
Peak judged_peak(const TraceComparison& comparison) {
  const std::vector<Peak> peaks = peaks_of(comparison);
  return peaks[1].measured ? peaks[1] : peaks[0];
}

std::int64_t allocations_of(const Timeline& timeline) {
  return std::ranges::count(timeline.events, EventKind::allocate, &Event::kind);
}

std::string summary_of(const TraceComparison& comparison) {
  const Peak peak = peaks_of(comparison)[0];
  const Bytes more = *peak.measured - peak.predicted;
  const AllocationMatch& match = comparison.match;
  const std::size_t compared =
      match.matched +
      static_cast<std::size_t>(std::ranges::count_if(
          match.unmatched, [](const auto& row) { return row.recorded != row.kNone; }));
  std::string text = more == Bytes()
                         ? fmt::format("At its peak the run allocated what is predicted, {}",
                                       sized_text(peak.predicted))
                         : fmt::format("At its peak the run allocated {} {} than predicted",
                                       sized_text(more > Bytes() ? more : Bytes() - more),
                                       more > Bytes() ? "more" : "less");
  return text + fmt::format("; {} of {} allocations are the predicted ones.",
                            grouped(static_cast<Int128>(match.matched)),
                            grouped(static_cast<Int128>(compared)));
}

Table peak_table(const TraceComparison& comparison) {
  Table table{
      {{""}, {"predicted", Align::right}, {"measured", Align::right}, {"difference", Align::right}},
      {}};
  for (const Peak& peak : peaks_of(comparison)) {
    table.rows.push_back(
        {{peak.name, sized_text(peak.predicted),
          peak.measured ? sized_text(*peak.measured) : "not known",
          peak.measured ? signed_text(*peak.measured - peak.predicted, "B") : "not known"},
         "",
         Tone::plain});
  }
  return table;
}

std::string source_text(const RecordedPeaks& peaks) {
  switch (peaks.source) {
    case PeakSource::statistics:
      return "Measured are PyTorch's own statistics, as the record has them.";
    case PeakSource::replay:
      return "Measured is what the recorded events come to by PyTorch's allocator, whose segments "
             "are the recorded ones.";
    case PeakSource::sum:
      return "Measured is at least so much: the sum of recorded sizes in blocks of 512 B.";
  }
  unreachable("a source of peaks beyond the enum");
}

std::string verdict_text(const TraceComparison& comparison) {
  const Peak peak = judged_peak(comparison);
  const BytesInterval interval = interval_of(comparison, peak.predicted);
  return fmt::format("The {} is {} the predicted interval, {} to {}. Step time: not known, {}.",
                     peak.name, holds(comparison) ? "within" : "outside of",
                     sized_text(interval.low), sized_text(interval.high), kNoSteps);
}

Row row_of(const TraceComparison& comparison, const UnmatchedAllocation& unmatched,
           const std::vector<Bytes>& sizes) {
  const StepMemory& memory = comparison.memory;
  std::vector<std::string> cells(4);
  if (unmatched.predicted != kNoStorage) {
    cells[0] = moment_name(memory, unmatched.predicted);
    cells[1] = grouped(memory.timeline.storages[unmatched.predicted].bytes);
  }
  if (unmatched.recorded != UnmatchedAllocation::kNone) {
    const std::string_view place = comparison.trace.place_of(unmatched.recorded);
    cells[2] = place.empty() ? kNoStack : std::string(place);
    cells[3] = grouped(sizes[static_cast<std::size_t>(unmatched.recorded)].value());
  }
  return {std::move(cells), "", Tone::plain};
}

/// By allocation.
std::vector<Bytes> recorded_sizes(const AllocatorTrace& trace) {
  std::vector<Bytes> sizes;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEventKind::allocate) sizes.push_back(event.size);
  }
  return sizes;
}

void append_allocations(const TraceComparison& comparison, Page& page) {
  const auto& unmatched = comparison.match.unmatched;
  if (unmatched.empty()) return;
  page.parts.emplace_back(Heading{"Allocations that differ, in order"});
  Table table{{{"predicted"}, {"bytes", Align::right}, {"measured"}, {"bytes", Align::right}}, {}};
  const std::vector<Bytes> sizes = recorded_sizes(comparison.trace);
  const std::size_t shown =
      comparison.every_row ? unmatched.size() : std::min(kShownRows, unmatched.size());
  for (std::size_t i = 0; i < shown; ++i) {
    table.rows.push_back(row_of(comparison, unmatched[i], sizes));
  }
  page.parts.emplace_back(std::move(table));
  if (shown < unmatched.size()) {
    page.parts.emplace_back(
        Paragraph{fmt::format("{} more: -v shows them.",
                              grouped(static_cast<Int128>(unmatched.size() - shown))),
                  Tone::faint});
  }
}

/// Allocations that are equal may be freed elsewhere: the first that is, in words.
std::vector<std::string> freed_elsewhere(const TraceComparison& comparison) {
  const auto& first = comparison.first;
  const bool frees = first && first->kind == TimelineDifference::Kind::freed;
  return frees ? sentences_of(comparison.memory, *first) : std::vector<std::string>();
}

/// Parts of either side that were held against nothing, a sentence each.
std::vector<std::string> limits_of(const TraceComparison& comparison) {
  const AllocationMatch& match = comparison.match;
  std::vector<std::string> sentences;
  const auto add = [&sentences](std::size_t count, const char* form) {
    if (count > 0) {
      sentences.push_back(fmt::format(fmt::runtime(form), grouped(static_cast<Int128>(count))));
    }
  };
  for (const TraceEvent& event : comparison.trace.events) {
    if (event.kind != TraceEventKind::out_of_memory) continue;
    sentences.push_back(fmt::format("The run ran out of memory: {} asked for, in entry {}.",
                                    sized_text(event.size), grouped(event.line)));
    break;
  }
  add(match.predicted_before,
      "The recording begins behind {} predicted allocations, which are held against nothing.");
  if (match.given_up) {
    sentences.emplace_back(
        "What comes after has too little in common with the prediction to be matched: is it "
        "another job, or another release?");
  }
  add(match.predicted_after, match.given_up
                                 ? "{} predicted allocations are not compared."
                                 : "The recording ends before {} predicted allocations.");
  add(match.recorded_after, match.given_up
                                ? "{} recorded allocations are not compared."
                                : "The run goes on for {} allocations behind the predicted steps "
                                  "(training.steps says how many are followed).");
  return sentences;
}

Page page_of(const TraceComparison& comparison) {
  const bool held = holds(comparison);
  const bool equal = comparison.match.unmatched.empty() && !comparison.match.given_up;
  Page page{{Paragraph{summary_of(comparison), !held   ? Tone::bad
                                               : equal ? Tone::good
                                                       : Tone::strong}}};
  page.parts.emplace_back(
      Heading{title_of(comparison.job, count_parameters(comparison.job).total)});
  page.parts.emplace_back(Paragraph{setting_of(comparison.job)});
  page.parts.emplace_back(
      Paragraph{fmt::format("Measured: {}, {} allocations.", comparison.trace.file,
                            grouped(comparison.trace.allocations))});
  page.parts.emplace_back(peak_table(comparison));
  page.parts.emplace_back(Paragraph{source_text(comparison.peaks)});
  page.parts.emplace_back(Paragraph{verdict_text(comparison), held ? Tone::plain : Tone::bad});
  append_allocations(comparison, page);
  if (const auto sentences = freed_elsewhere(comparison); !sentences.empty()) {
    std::string text = fmt::format("Frees differ first behind {} predicted events.",
                                   grouped(static_cast<Int128>(comparison.first->event)));
    for (const std::string& sentence : sentences) text += " " + sentence;
    page.parts.emplace_back(Paragraph{std::move(text)});
  }
  for (std::string& sentence : limits_of(comparison)) {
    page.parts.emplace_back(Paragraph{std::move(sentence), Tone::uncertain});
  }
  page.parts.emplace_back(
      Paragraph{"Predicted of " + modelled_programs(comparison.job) + ".", Tone::faint});
  return page;
}

Table records_of(const TraceComparison& comparison) {
  Table table{{{"kind"}, {"predicted"}, {"predicted_bytes"}, {"measured"}, {"measured_bytes"}}, {}};
  for (const Peak& peak : peaks_of(comparison)) {
    table.rows.push_back({{"peak", peak.name, to_string(peak.predicted.value()), peak.name,
                           peak.measured ? to_string(peak.measured->value()) : ""},
                          "",
                          {}});
  }
  const Timeline& timeline = comparison.memory.timeline;
  const std::vector<Bytes> sizes = recorded_sizes(comparison.trace);
  for (const UnmatchedAllocation& row : comparison.match.unmatched) {
    std::vector<std::string> cells{"allocation", "", "", "", ""};
    if (row.predicted != kNoStorage) {
      cells[1] = moment_name(comparison.memory, row.predicted);
      cells[2] = std::to_string(timeline.storages[row.predicted].bytes);
    }
    if (row.recorded != UnmatchedAllocation::kNone) {
      cells[3] = comparison.trace.place_of(row.recorded);
      cells[4] = to_string(sizes[static_cast<std::size_t>(row.recorded)].value());
    }
    table.rows.push_back({std::move(cells), "", {}});
  }
  return table;
}

Json json_of(const TraceComparison& comparison, const UnmatchedAllocation& row,
             const std::vector<Bytes>& sizes) {
  Json json;
  if (row.predicted == kNoStorage) {
    put_null(json, "predicted", kNoCounterpart);
  } else {
    json["predicted"] = {{"tensor", moment_name(comparison.memory, row.predicted)},
                         {"bytes", comparison.memory.timeline.storages[row.predicted].bytes}};
  }
  if (row.recorded == UnmatchedAllocation::kNone) {
    put_null(json, "measured", kNoCounterpart);
    return json;
  }
  Json measured;
  const std::string_view place = comparison.trace.place_of(row.recorded);
  if (place.empty()) {
    put_null(measured, "place", kNoStack);
  } else {
    measured["place"] = place;
  }
  measured["bytes"] = sizes[static_cast<std::size_t>(row.recorded)].value();
  measured["allocation"] = row.recorded;
  json["measured"] = std::move(measured);
  return json;
}

Json json_of(const TraceComparison& comparison, const Question& question) {
  Json json = new_answer();
  json["kind"] = "trace";
  json["summary"] = summary_of(comparison);
  json["file"] = comparison.trace.file;
  json["equal"] = comparison.match.unmatched.empty() && !comparison.match.given_up;
  json["within_interval"] = holds(comparison);
  json["peaks"] = Json::array();
  for (const Peak& peak : peaks_of(comparison)) {
    Json entry{{"name", peak.name}, {"predicted_bytes", peak.predicted.value()}};
    const BytesInterval interval = interval_of(comparison, peak.predicted);
    entry["interval_bytes"] = {interval.low.value(), interval.high.value()};
    if (peak.measured) {
      entry["measured_bytes"] = peak.measured->value();
      entry["difference_bytes"] = (*peak.measured - peak.predicted).value();
    } else {
      put_null(entry, "measured_bytes", kNoSegments);
      put_null(entry, "difference_bytes", kNoSegments);
    }
    json["peaks"].push_back(std::move(entry));
  }
  json["measured_by"] = name_of(comparison.peaks.source);
  put_null(json, "device_bytes", kNoDevice);
  put_null(json, "step_seconds", kNoSteps);
  const AllocationMatch& match = comparison.match;
  json["allocations"] = {{"predicted", allocations_of(comparison.memory.timeline)},
                         {"measured", comparison.trace.allocations},
                         {"matched", match.matched},
                         {"predicted_before", match.predicted_before},
                         {"predicted_after", match.predicted_after},
                         {"measured_after", match.recorded_after},
                         {"given_up", match.given_up}};
  const std::vector<Bytes> sizes = recorded_sizes(comparison.trace);
  json["unmatched"] = Json::array();
  for (const UnmatchedAllocation& row : match.unmatched) {
    json["unmatched"].push_back(json_of(comparison, row, sizes));
  }
  json["first_freed_elsewhere"] = freed_elsewhere(comparison);
  json["provenance"] = {{"method", "replay"},
                        {"models", modelled_programs(comparison.job)},
                        {"versions", {{"memest", question.version}}}};
  return json;
}

}  // namespace

bool holds(const TraceComparison& comparison) {
  const Peak peak = judged_peak(comparison);
  const BytesInterval interval = interval_of(comparison, peak.predicted);
  return interval.low <= *peak.measured && *peak.measured <= interval.high;
}

Report report_diff(const TraceComparison& comparison, const Question& question) {
  return {page_of(comparison),
          records_of(comparison),
          text_for(question, [&] { return json_of(comparison, question); }),
          {{"peak", holds(comparison) ? "within the predicted interval" : "outside of it",
            holds(comparison) ? Tone::good : Tone::bad}},
          "A spec beside " + comparison.trace.file};
}

}  // namespace memest
