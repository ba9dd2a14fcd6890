#include "memest/memory/replay.hpp"

#include <algorithm>
#include <utility>

#include "cli/command.hpp"
#include "cli/spec.hpp"
#include "memest/reader/read_trace.hpp"
#include "memest/report/replay_report.hpp"

namespace memest {

Outcome run_replay(const Arguments& arguments, const Surroundings& surroundings) {
  std::vector<ReplayedTrace> traces;
  Diagnostics diagnostics;
  for (const std::string& file : arguments.words) {
    Checked<AllocatorTrace> trace = read_trace(file);
    const Diagnostics& errors = trace.diagnostics();
    append(errors, diagnostics);
    if (!trace.ok()) continue;
    ReplayResult result = replay(trace.value());
    traces.push_back({std::move(trace).value(), std::move(result)});
  }
  if (!diagnostics.empty()) return refused(std::move(diagnostics));
  const bool equal = std::all_of(traces.begin(), traces.end(), [](const ReplayedTrace& replayed) {
    return !replayed.result.difference;
  });
  const Question question = question_of(arguments, arguments.words, surroundings);
  return {equal ? ExitCode::yes : ExitCode::no,
          formatted(report_replay(traces, question), arguments.format, surroundings.out),
          {}};
}

}  // namespace memest
