#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/command.hpp"
#include "cli/record/recorded_answers.hpp"
#include "cli/spec.hpp"
#include "memest/memory/step_course.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/plan/step_memory.hpp"
#include "memest/reader/read_trace.hpp"
#include "memest/report/estimate_report.hpp"
#include "memest/report/timeline_files.hpp"
#include "memest/report/timeline_report.hpp"

namespace memest {
namespace {

ComparedTrace compared_with(const Timeline& timeline, const AllocatorTrace& trace) {
  ComparedTrace compared;
  compared.file = trace.file;
  compared.events = static_cast<std::size_t>(
      std::count_if(trace.events.begin(), trace.events.end(), [](const TraceEvent& event) {
        return event.kind == TraceEventKind::allocate || event.kind == TraceEventKind::free;
      }));
  compared.difference = first_difference(timeline, trace);
  return compared;
}

/// Held to a record the question is whether they are equal, else whether it runs at all.
ExitCode code_of(const StepMemory& memory, const std::optional<ComparedTrace>& compared) {
  const bool yes = compared ? !compared->difference : !memory.replay.out_of_memory;
  return yes ? ExitCode::yes : ExitCode::no;
}

std::vector<FileBesideAnswer> files_of(const Arguments& arguments, const TimelineRun& run) {
  std::vector<FileBesideAnswer> files;
  if (!arguments.csv.empty()) files.push_back({arguments.csv, events_csv(run)});
  if (!arguments.snapshot.empty()) files.push_back({arguments.snapshot, memory_snapshot(run)});
  if (!arguments.pack.empty()) files.push_back({arguments.pack, packing_csv(run)});
  if (!arguments.trace.empty()) files.push_back({arguments.trace, trace_events(run)});
  return files;
}

std::variant<BufferReuse, Unavailable> reuse_of(const Graph& graph, const Job& job) {
  auto buffers = forward_buffers(graph, job.allocator);
  if (auto* reason = std::get_if<Unavailable>(&buffers)) return std::move(*reason);
  const bool recomputes = !std::holds_alternative<NoRecompute>(job.recompute());
  return BufferReuse{in_place_rows(graph, recomputes), std::get<ForwardBuffers>(buffers)};
}

}  // namespace

Outcome run_timeline(const Arguments& arguments, const Surroundings& surroundings) {
  if (auto answer = timeline_recorded(arguments, surroundings)) return *std::move(answer);
  const Checked<Job> job = read_configuration(arguments, arguments.words);
  if (!job.ok()) return refused(job.diagnostics());
  std::optional<AllocatorTrace> recorded;
  if (!arguments.against.empty()) {
    Checked<AllocatorTrace> trace = read_trace(arguments.against);
    if (!trace.ok()) return refused(trace.diagnostics());
    recorded = std::move(trace).value();
  }
  if (auto wrong = wrong_rank(arguments, job.value())) return refused({*std::move(wrong)});
  const JobRank rank = rank_of(arguments, job.value(), recorded.has_value());
  const auto answer = step_memory_of(job.value(), rank);
  if (const auto* reason = std::get_if<Unavailable>(&answer)) return refused(*reason);
  const auto& memory = std::get<StepMemory>(answer);
  const StepCourse course =
      course_of(memory.timeline, job.value().allocator, replay_device_of(job.value()));
  std::vector<Arena> arenas;
  if (!arguments.pack.empty()) {
    auto packed = pack_timeline(memory.timeline);
    if (const auto* reason = std::get_if<Unavailable>(&packed)) return refused(*reason);
    arenas = std::get<std::vector<Arena>>(std::move(packed));
  }
  std::optional<BufferReuse> reuse;
  if (arguments.reuse) {
    auto shared = reuse_of(memory.graph, job.value());
    if (const auto* reason = std::get_if<Unavailable>(&shared)) return refused(*reason);
    reuse = std::get<BufferReuse>(std::move(shared));
  }
  const TimelineRun run{job.value(), memory, course, rank, arenas, reuse ? &*reuse : nullptr};
  std::optional<ComparedTrace> compared;
  if (recorded) compared = compared_with(memory.timeline, *recorded);
  const Question question = question_of(arguments, arguments.words, surroundings);
  Outcome outcome{code_of(memory, compared), "", job.diagnostics(), files_of(arguments, run)};
  if (arguments.format == Format::csv) {
    outcome.out = events_csv(run);
    if (arguments.html.empty()) return outcome;
  }
  Report report = report_timeline(run, compared, question);
  if (arguments.format == Format::html || !arguments.html.empty()) {
    report.headlines = headlines_of(estimate_job(job.value()));
  }
  if (!arguments.html.empty()) {
    outcome.files.push_back({arguments.html, browser_page(report, arguments, surroundings)});
  }
  if (arguments.format != Format::csv) outcome.out = shown(report, arguments, surroundings);
  return outcome;
}

}  // namespace memest
