#include "memest/memory/replay.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "cli/spec.hpp"
#include "memest/reader/read_trace.hpp"
#include "memest/report/replay_report.hpp"
#include "memest/units/text.hpp"

namespace memest {
namespace {

/// The memory and the settings that the requests are played under; without them the trace's own.
struct PlayedUnder {
  std::optional<Bytes> memory;
  std::optional<AllocatorSettings> settings;
};

Checked<PlayedUnder> read_flags(const Arguments& arguments) {
  PlayedUnder under;
  if (!arguments.memory.empty()) {
    const ParsedBytes memory = parse_bytes(arguments.memory);
    if (memory.error) {
      return mistake("--memory takes a size as 24GiB, not '" + arguments.memory + "'", "");
    }
    under.memory = memory.value;
  }
  if (arguments.conf.empty()) return under;
  const Checked<AllocatorSettings> settings = read_allocator_conf("--conf", arguments.conf);
  if (!settings.ok()) return settings.diagnostics();
  under.settings = settings.value();
  return under;
}

PlayedRun played(AllocatorTrace trace, const PlayedUnder& under, const std::string& conf) {
  PlayedRun run;
  // The context takes as much of another device.
  if (under.memory) trace.device_memory = *under.memory;
  run.available = trace.context < trace.device_memory ? trace.available() : Bytes();
  run.settings = conf.empty() ? trace.settings_text : conf;
  run.played = play_requests(trace, under.settings.value_or(trace.settings), run.available);
  run.trace = std::move(trace);
  return run;
}

Outcome run_play(const Arguments& arguments, const Surroundings& surroundings) {
  const Checked<PlayedUnder> under = read_flags(arguments);
  if (!under.ok()) return refused(under.diagnostics());
  std::vector<PlayedRun> runs;
  Diagnostics diagnostics;
  for (const std::string& file : arguments.words) {
    Checked<AllocatorTrace> trace = read_trace(file);
    append(trace.diagnostics(), diagnostics);
    if (trace.ok()) runs.push_back(played(std::move(trace).value(), under.value(), arguments.conf));
  }
  if (!diagnostics.empty()) return refused(std::move(diagnostics));
  const bool fit = std::ranges::none_of(
      runs, [](const PlayedRun& run) { return run.played.failed.has_value(); });
  const Question question = question_of(arguments, arguments.words, surroundings);
  return {fit ? ExitCode::yes : ExitCode::no,
          formatted(report_play(runs, question), arguments.format, surroundings.out),
          {}};
}

}  // namespace

Outcome run_replay(const Arguments& arguments, const Surroundings& surroundings) {
  if (!arguments.memory.empty() || !arguments.conf.empty()) {
    return run_play(arguments, surroundings);
  }
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
