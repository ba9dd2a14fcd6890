#include "memest/report/timeline_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "memest/memory/data_ranks.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/pages/json.hpp"
#include "report/pages/modelled.hpp"
#include "report/pages/title.hpp"
#include "report/timeline/difference_text.hpp"
#include "report/timeline/packing_report.hpp"
#include "report/timeline/reuse_report.hpp"
#include "report/timeline/timeline_chart.hpp"
#include "report/timeline/timeline_curve.hpp"

namespace memest {
namespace {

/// Tensors that the page lists by name.
constexpr std::size_t kLargest = 10;

std::string modelled_text(const Job& job) {
  return "Modelled: eager " + modelled_programs(job, " with ") +
         ", event by event; other versions allocate differently.";
}

StorageId storage_at(const StepMemory& memory, std::uint32_t event) {
  return memory.timeline.events[event].storage;
}

/// "loss, log_softmax, out, in step 1's forward (op 2: softmax)".
std::string moment_at(const StepMemory& memory, std::uint32_t event) {
  const StorageId storage = storage_at(memory, event);
  return moment_name(memory, storage) + op_of(memory, storage);
}

std::string verdict_of(const StepMemory& memory) {
  const StepReplay& replay = memory.replay;
  if (const auto& out = replay.out_of_memory) {
    return fmt::format("Out of memory: {} asked for at {}", sized_text(out->requested),
                       moment_at(memory, out->event));
  }
  return fmt::format("Peak: {} allocated; {} reserved at most", sized_text(replay.peak.allocated),
                     sized_text(replay.statistics.reserved.peak));
}

std::string out_of_memory_sentence(const OutOfMemory& out) {
  return fmt::format(
      "{} are allocated and {} reserved. {} of it is free, but in pieces of at most {}.",
      sized_text(out.allocated), sized_text(out.reserved), sized_text(out.free_in_segments),
      sized_text(out.largest_free));
}

std::string peak_sentence(const StepMemory& memory) {
  const PeakMoment& peak = memory.replay.peak;
  return fmt::format("The peak, {} B, stands at event {} (from 0 on, of {}): {}.",
                     grouped(peak.allocated.value()), grouped(peak.event),
                     grouped(static_cast<std::int64_t>(memory.timeline.events.size())),
                     moment_at(memory, peak.event));
}

Table phases_of(const StepReplay& replay) {
  Table table{{{"step"},
               {"phase"},
               {"peak", Align::right},
               {"end", Align::right},
               {"reserved", Align::right}},
              {}};
  for (const PhaseMemory& phase : replay.phases) {
    if (phase.phase == Phase::batch) continue;
    const bool peak = phase.peak == replay.peak.allocated;
    table.rows.push_back(
        {{phase.step == 0 ? "" : std::to_string(phase.step), std::string(name_of(phase.phase)),
          sized_text(phase.peak), sized_text(phase.end), sized_text(phase.reserved)},
         peak ? "▸" : "",
         peak ? Tone::strong : Tone::plain});
  }
  return table;
}

Table holdings_of(const PeakMoment& peak) {
  Table table{{{"alive at the peak"}, {"bytes", Align::right}, {"", Align::right}}, {}};
  for (std::size_t i = 0; i < kHoldings; ++i) {
    const Bytes bytes = peak.by_holding[i];
    if (bytes == Bytes()) continue;
    table.rows.push_back(
        {{std::string(name_of(static_cast<Holding>(i))), grouped(bytes.value()), sized_text(bytes)},
         "",
         Tone::plain});
  }
  table.rows.push_back({{"together", grouped(peak.allocated.value()), sized_text(peak.allocated)},
                        "",
                        Tone::strong});
  return table;
}

Table largest_of(const StepMemory& memory) {
  Table table{{{"the largest tensors alive"}, {"", Align::right}}, {}};
  const auto& alive = memory.replay.peak.alive;
  for (std::size_t i = 0; i < std::min(alive.size(), kLargest); ++i) {
    table.rows.push_back(
        {{moment_name(memory, alive[i].storage), sized_text(alive[i].block)}, "", Tone::plain});
  }
  return table;
}

void append(const StepMemory& memory, const ComparedTrace& compared, Page& page) {
  if (!compared.difference) {
    page.parts.emplace_back(
        Paragraph{fmt::format("{}: equal: {} events.", compared.file,
                              grouped(static_cast<std::int64_t>(compared.events))),
                  Tone::good});
    return;
  }
  page.parts.emplace_back(
      Paragraph{fmt::format("{}:{}: the first difference, after {} predicted events.",
                            compared.file, compared.difference->line,
                            grouped(static_cast<std::int64_t>(compared.difference->event))),
                Tone::bad});
  for (std::string& sentence : sentences_of(memory, *compared.difference)) {
    page.parts.emplace_back(Paragraph{std::move(sentence), Tone::bad});
  }
}

std::string reserved_sentence(const StepReplay& replay) {
  const Bytes reserved = replay.statistics.reserved.peak;
  return fmt::format(
      "Reserved: at most {}; at the peak {} of it are free, which is fragmentation and what the "
      "allocator keeps. Retries after giving back what it had cached: {}.",
      sized_text(reserved), sized_text(replay.peak.reserved - replay.peak.allocated),
      grouped(replay.statistics.retries));
}

void append_packing(const TimelineRun& run, Page& page) {
  if (run.arenas.empty()) return;
  page.parts.emplace_back(packing_table(run));
  const std::string sentence = packing_sentence(run);
  if (!sentence.empty()) page.parts.emplace_back(Paragraph{sentence});
}

Page page_of(const TimelineRun& run, const std::optional<ComparedTrace>& compared) {
  const StepMemory& memory = run.memory;
  const StepReplay& replay = memory.replay;
  Page page{{Heading{title_of(run.job, count_parameters(run.job).total)},
             Paragraph{setting_of(run.job)}}};
  if (data_ranks_of(run.job) > 1) {
    page.parts.emplace_back(
        Paragraph{fmt::format("Data rank {} of {}, counted from 0.", grouped(run.rank.data),
                              grouped(data_ranks_of(run.job)))});
  }
  page.parts.emplace_back(Heading{verdict_of(memory)});
  if (replay.out_of_memory) {
    page.parts.emplace_back(Paragraph{out_of_memory_sentence(*replay.out_of_memory), Tone::bad});
  }
  page.parts.emplace_back(course_chart(run));
  page.parts.emplace_back(curve_of(run));
  page.parts.emplace_back(Paragraph{peak_sentence(memory)});
  page.parts.emplace_back(holdings_of(replay.peak));
  page.parts.emplace_back(largest_of(memory));
  page.parts.emplace_back(phases_of(replay));
  page.parts.emplace_back(Paragraph{reserved_sentence(replay)});
  append_packing(run, page);
  append_reuse(run, page);
  if (compared) append(memory, *compared, page);
  page.parts.emplace_back(Paragraph{modelled_text(run.job), Tone::faint});
  return page;
}

Json peak_json(const StepMemory& memory) {
  const PeakMoment& peak = memory.replay.peak;
  const StorageId last = memory.timeline.events[peak.event].storage;
  const Label& label = memory.timeline.storages[last].label;
  Json json{{"event", peak.event},
            {"step", label.step},
            {"phase", name_of(label.phase)},
            {"tensor", storage_name(memory.timeline, memory.graph, last)},
            {"allocated_bytes", peak.allocated.value()},
            {"reserved_bytes", peak.reserved.value()},
            {"by_holding", Json::object()},
            {"alive", Json::array()}};
  for (std::size_t i = 0; i < kHoldings; ++i) {
    json["by_holding"][std::string(name_of(static_cast<Holding>(i)))] = peak.by_holding[i].value();
  }
  for (const AliveStorage& alive : peak.alive) {
    json["alive"].push_back({{"tensor", storage_name(memory.timeline, memory.graph, alive.storage)},
                             {"bytes", alive.block.value()}});
  }
  return json;
}

Json compared_json(const StepMemory& memory, const ComparedTrace& compared) {
  Json json{{"file", compared.file},
            {"events", compared.events},
            {"equal", !compared.difference.has_value()}};
  if (compared.difference) {
    json["difference"] = {{"line", compared.difference->line},
                          {"event", compared.difference->event},
                          {"sentences", sentences_of(memory, *compared.difference)}};
  }
  return json;
}

}  // namespace

Report report_timeline(const TimelineRun& run, const std::optional<ComparedTrace>& compared,
                       const Question& question) {
  const StepMemory& memory = run.memory;
  const StepReplay& replay = memory.replay;
  Json json = new_answer();
  json["rank"] = run.rank.pipeline;
  json["data_rank"] = run.rank.data;
  json["events"] = memory.timeline.events.size();
  json["allocated_peak_bytes"] = replay.statistics.allocated.peak.value();
  json["reserved_peak_bytes"] = replay.statistics.reserved.peak.value();
  json["requested_peak_bytes"] = replay.statistics.requested.peak.value();
  json["retries"] = replay.statistics.retries;
  json["phases"] = Json::array();
  for (const PhaseMemory& phase : replay.phases) {
    json["phases"].push_back({{"step", phase.step},
                              {"phase", name_of(phase.phase)},
                              {"peak_bytes", phase.peak.value()},
                              {"end_bytes", phase.end.value()},
                              {"reserved_bytes", phase.reserved.value()}});
  }
  json["peak"] = peak_json(memory);
  if (replay.out_of_memory) {
    const OutOfMemory& out = *replay.out_of_memory;
    json["out_of_memory"] = {{"event", out.event},
                             {"requested_bytes", out.requested.value()},
                             {"allocated_bytes", out.allocated.value()},
                             {"reserved_bytes", out.reserved.value()},
                             {"free_bytes", out.free_in_segments.value()},
                             {"largest_free_bytes", out.largest_free.value()}};
  }
  if (!run.arenas.empty()) json["arenas"] = packing_json(run);
  if (run.reuse != nullptr) {
    json["in_place"] = in_place_json(run);
    json["forward_buffers"] = forward_buffers_json(run.reuse->buffers);
  }
  if (compared) json["against"] = compared_json(memory, *compared);
  json["provenance"] = {{"method", "replay"},
                        {"models", modelled_programs(run.job)},
                        {"versions", {{"memest", question.version}}}};
  return {page_of(run, compared), {}, text_of(json)};
}

}  // namespace memest
