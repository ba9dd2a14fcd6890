#include <algorithm>
#include <optional>
#include <utility>

#include "command.hpp"
#include "memest/plan/step_memory.hpp"
#include "memest/reader/read_trace.hpp"
#include "memest/report/timeline_report.hpp"
#include "spec.hpp"

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

}  // namespace

Outcome run_timeline(const Arguments& arguments, const Surroundings& surroundings) {
  const Checked<Job> job = read_configuration(arguments, arguments.words);
  if (!job.ok()) return refused(job.diagnostics());
  const auto answer = step_memory_of(job.value());
  if (const auto* reason = std::get_if<Unavailable>(&answer)) {
    return refused({Diagnostic{Severity::error, {}, reason->sentence, "", true}});
  }
  const auto& memory = std::get<StepMemory>(answer);
  std::optional<ComparedTrace> compared;
  if (!arguments.against.empty()) {
    const Checked<AllocatorTrace> trace = read_trace(arguments.against);
    if (!trace.ok()) return refused(trace.diagnostics());
    compared = compared_with(memory.timeline, trace.value());
  }
  const bool equal = !compared || !compared->difference;
  const Report report =
      report_timeline(memory, compared, question_of(arguments, arguments.words, surroundings));
  const bool runs = !memory.replay.out_of_memory;
  return {equal && (runs || compared) ? ExitCode::yes : ExitCode::no,
          formatted(report, arguments.format, surroundings.out), job.diagnostics()};
}

}  // namespace memest
