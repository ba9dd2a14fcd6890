#include "memest/memory/replay.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/command.hpp"
#include "cli/record/play_recording.hpp"
#include "cli/spec.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/family_text.hpp"
#include "memest/reader/read_trace.hpp"
#include "memest/report/replay_report.hpp"
#include "memest/units/text.hpp"

namespace memest {
namespace {

/// The memory and settings of the flags, once for each GPU type of --gpu.
Checked<std::vector<PlayedUnder>> read_flags(const Arguments& arguments) {
  PlayedUnder under;
  under.conf = arguments.conf;
  if (!arguments.memory.empty()) {
    const ParsedBytes memory = parse_bytes(arguments.memory);
    if (memory.error) {
      return mistake("--memory takes a size as 24GiB, not '" + arguments.memory + "'", "");
    }
    under.memory = memory.value;
  }
  if (!arguments.conf.empty()) {
    const Checked<AllocatorSettings> settings = read_allocator_conf("--conf", arguments.conf);
    if (!settings.ok()) return settings.diagnostics();
    under.settings = settings.value();
  }
  if (arguments.gpus.empty()) return std::vector{std::move(under)};
  std::vector<PlayedUnder> of_gpus;
  for (const std::string& name : arguments.gpus) {
    Checked<GpuSpec> gpu = find_gpu(name);
    if (!gpu.ok()) return gpu.diagnostics();
    of_gpus.push_back(under);
    of_gpus.back().hardware = hardware_of(std::move(gpu).value());
  }
  return of_gpus;
}

/// A trace or, at the sizes of --at, a family; each is refused where the flags are for the other.
Checked<std::vector<PlayedRun>> play_file(const std::string& file, const PlayedUnder& under,
                                          const Arguments& arguments) {
  const auto read = read_recording_or_family(file);
  if (!read.ok()) return read.diagnostics();
  return played_runs(read.value(), under, {arguments.at, arguments.largest_size});
}

/// The worse of two answers: no before not known before yes.
ExitCode worse(ExitCode one, ExitCode other) {
  if (one == ExitCode::no || other == ExitCode::no) return ExitCode::no;
  return one == ExitCode::yes ? other : one;
}

Outcome run_play(const Arguments& arguments, const Surroundings& surroundings) {
  const Checked<std::vector<PlayedUnder>> unders = read_flags(arguments);
  if (!unders.ok()) return refused(unders.diagnostics());
  std::vector<PlayedRun> runs;
  Diagnostics diagnostics;
  ExitCode code = ExitCode::yes;
  for (const std::string& file : arguments.words) {
    for (const PlayedUnder& under : unders.value()) {
      Checked<std::vector<PlayedRun>> played_file = play_file(file, under, arguments);
      if (!played_file.ok()) {
        append(played_file.diagnostics(), diagnostics);
        break;  // the file is refused on every GPU
      }
      std::vector<PlayedRun> more = std::move(played_file).value();
      code = worse(code, code_of(more.front()));  // with --largest whatever the next does
      std::ranges::move(more, std::back_inserter(runs));
    }
  }
  if (!diagnostics.empty()) return refused(std::move(diagnostics));
  const Question question = question_of(arguments, arguments.words, surroundings);
  return {code, formatted(report_play(runs, question), arguments.format, surroundings.out), {}};
}

}  // namespace

Outcome run_replay(const Arguments& arguments, const Surroundings& surroundings) {
  const bool has_size = !arguments.at.empty() || !arguments.largest_size.empty();
  if (!arguments.memory.empty() || !arguments.conf.empty() || !arguments.gpus.empty() || has_size) {
    return run_play(arguments, surroundings);
  }
  std::vector<ReplayedTrace> traces;
  Diagnostics diagnostics;
  for (const std::string& file : arguments.words) {
    auto read = read_recording_or_family(file);
    append(read.diagnostics(), diagnostics);
    if (!read.ok()) continue;
    auto recording_or_family = std::move(read).value();
    if (const auto* family = std::get_if<RecordedFamily>(&recording_or_family)) {
      const VariedSize& first = family->varied.front();
      diagnostics.push_back(
          mistake("'" + file + "' is a recording for many sizes",
                  "as in --at " + first.name + "=" + std::to_string(first.values.back())));
      continue;
    }
    AllocatorTrace& trace = std::get<Recording>(recording_or_family).trace;
    ReplayResult result = replay(trace);
    traces.push_back({std::move(trace), std::move(result)});
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
