#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/command.hpp"
#include "cli/machine/git.hpp"
#include "cli/record/play_recording.hpp"
#include "cli/spec.hpp"
#include "memest/memory/recorded_peaks.hpp"
#include "memest/memory/timeline_difference.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/plan/step_memory.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/read_run.hpp"
#include "memest/reader/read_trace.hpp"
#include "memest/reader/residuals.hpp"
#include "memest/reader/written_keys.hpp"
#include "memest/report/diff_report.hpp"
#include "memest/report/record/runs_diff.hpp"

namespace memest {
namespace {

/// A spec of one side, read.
struct ReadSpec {
  std::string name;
  Job job;
  std::vector<PlacedKey> keys;
  Diagnostics warnings;
};

std::string place_of(const SourceSpan& span) {
  if (span.source == nullptr) return {};
  return span.source->name + (span.line > 0 ? ":" + std::to_string(span.line) : "");
}

/// Texts that cannot be read twice, or are no files here, go along with the request.
Checked<ReadRequest> with_texts(ReadRequest request) {
  if (request.files.front() != "-") return with_revisions(std::move(request));
  const auto text = read_standard_input();
  if (!text.ok()) return text.diagnostics();
  request.files.front() = text.value()->name;
  request.texts.push_back(text.value());
  return request;
}

Checked<ReadSpec> read_spec(const Arguments& arguments, const std::string& word) {
  Checked<ReadRequest> request = configuration_request(arguments, {word});
  if (request.ok()) request = with_texts(std::move(request).value());
  if (!request.ok()) return request.diagnostics();
  Checked<Job> job = read_configuration(request.value());
  if (!job.ok()) return job.diagnostics();
  const Checked<std::vector<SpecKey>> keys = written_keys(request.value());
  if (!keys.ok()) return keys.diagnostics();
  ReadSpec spec{word, {}, {}, job.diagnostics()};
  spec.job = std::move(job).value();
  for (const SpecKey& key : keys.value()) {
    spec.keys.push_back({key.key, key.value, place_of(key.span)});
  }
  return spec;
}

/// A run where the file is one. Standard input and revisions are specs.
Checked<std::optional<RecordedRun>> run_in(const std::string& word) {
  if (word == "-" || names_revision(word)) return std::optional<RecordedRun>();
  return find_run(word);
}

ExitCode exit_code_of(bool yes) { return yes ? ExitCode::yes : ExitCode::no; }

bool is_known(const JobEstimate& estimate) {
  return std::holds_alternative<MemoryAnswer>(estimate.memory);
}

Outcome compare_specs(const Arguments& arguments, const Surroundings& surroundings) {
  const Checked<ReadSpec> a = read_spec(arguments, arguments.words[0]);
  // A mistake in one is said beside one in the other.
  const Checked<ReadSpec> b = read_spec(arguments, arguments.words[1]);
  Diagnostics diagnostics = a.ok() ? a.value().warnings : a.diagnostics();
  const Diagnostics& more = b.ok() ? b.value().warnings : b.diagnostics();
  append(more, diagnostics);
  if (!a.ok() || !b.ok()) return refused(std::move(diagnostics));
  const JobEstimate of_a = estimate_job(a.value().job);
  const JobEstimate of_b = estimate_job(b.value().job);
  const SpecComparison comparison{{a.value().name, a.value().job, of_a, a.value().keys},
                                  {b.value().name, b.value().job, of_b, b.value().keys},
                                  arguments.verbose};
  const Question question = question_of(arguments, arguments.words, surroundings);
  const ExitCode code = is_known(of_a) && is_known(of_b) ? exit_code_of(!fits_no_more(comparison))
                                                         : ExitCode::not_known;
  return {code, shown(report_diff(comparison, question), arguments, surroundings),
          std::move(diagnostics)};
}

Outcome compare_trace(const Arguments& arguments, const Surroundings& surroundings,
                      const ReadSpec& spec, const AllocatorTrace& trace) {
  if (auto wrong = wrong_rank(arguments, spec.job)) return refused({*std::move(wrong)});
  const JobRank rank = rank_of(arguments, spec.job, true);
  const auto answer = step_memory_of(spec.job, rank);
  if (const auto* reason = std::get_if<Unavailable>(&answer)) return refused(*reason);
  const auto& memory = std::get<StepMemory>(answer);
  TraceComparison comparison{spec.job, memory,          rank,
                             trace,    peaks_of(trace), match_allocations(memory.timeline, trace)};
  if (trace.earlier.count == 0) comparison.first = first_difference(memory.timeline, trace);
  comparison.every_row = arguments.verbose;
  const Question question = question_of(arguments, arguments.words, surroundings);
  return {exit_code_of(holds(comparison)),
          shown(report_diff(comparison, question), arguments, surroundings), spec.warnings};
}

Outcome compare_usage(const Arguments& arguments, const Surroundings& surroundings,
                      const ReadSpec& spec, const UsageLog& log) {
  const JobEstimate estimate = estimate_job(spec.job);
  const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
  if (memory == nullptr) return refused(std::get<Unavailable>(estimate.memory));
  const UsageComparison comparison{spec.job, estimate, *memory, log};
  const Question question = question_of(arguments, arguments.words, surroundings);
  return {exit_code_of(holds(comparison)),
          shown(report_diff(comparison, question), arguments, surroundings), spec.warnings};
}

/// The GPU on which steps are timed: of --gpu, else the one that stood there for both.
Checked<std::optional<Hardware>> hardware_of_runs(const Arguments& arguments, const Recording& a,
                                                  const Recording& b) {
  const std::string& own = a.gpu == b.gpu ? a.gpu : "";
  const std::string& name = arguments.gpus.empty() ? own : arguments.gpus.front();
  if (name.empty()) return std::optional<Hardware>();
  Checked<GpuSpec> gpu = find_gpu(name);
  if (!gpu.ok()) return gpu.diagnostics();
  return std::optional(hardware_of(std::move(gpu).value()));
}

/// A flag that two recordings have no use for; empty where there is none.
std::string flag_beside_runs(const Arguments& arguments) {
  if (!arguments.counts.empty()) return "--gpus";
  if (!arguments.overrides.empty()) return "--set";
  if (!arguments.freed.empty()) return "--free";
  return arguments.gpus.size() > 1 ? "a second --gpu" : "";
}

Outcome compare_runs(const Arguments& arguments, const Surroundings& surroundings) {
  if (const std::string flag = flag_beside_runs(arguments); !flag.empty()) {
    return refused({mistake("two recordings have no use for " + flag)});
  }
  const Checked<Recording> a = read_recording(arguments.words[0]);
  const Checked<Recording> b = read_recording(arguments.words[1]);
  Diagnostics diagnostics = a.diagnostics();
  append(b.diagnostics(), diagnostics);
  if (!a.ok() || !b.ok()) return refused(std::move(diagnostics));
  const auto hardware = hardware_of_runs(arguments, a.value(), b.value());
  if (!hardware.ok()) return refused(hardware.diagnostics());
  const auto compared = [&](const Recording& recording) {
    if (!hardware.value()) return compared_run(recording, {});
    return compared_run(recording,
                        time_of(recording.work, *hardware.value(), find_source_margins().step));
  };
  const RunsComparison comparison{
      compared(a.value()), compared(b.value()),
      hardware.value() ? hardware.value()->gpu.vendor + " " + hardware.value()->gpu.name : "",
      arguments.verbose};
  const Question question = question_of(arguments, arguments.words, surroundings);
  return {exit_code_of(!fits_no_more(comparison)),
          shown(report_diff(comparison, question), arguments, surroundings),
          {}};
}

bool is_trace(const std::optional<RecordedRun>& run) {
  return run && std::holds_alternative<AllocatorTrace>(*run);
}

}  // namespace

Outcome run_diff(const Arguments& arguments, const Surroundings& surroundings) {
  const auto first = run_in(arguments.words[0]);
  if (!first.ok()) return refused(first.diagnostics());
  const auto second = run_in(arguments.words[1]);
  if (!second.ok()) return refused(second.diagnostics());
  if (is_trace(first.value()) && is_trace(second.value())) {
    return compare_runs(arguments, surroundings);
  }
  if (first.value() && second.value()) {
    return refused({mistake("two runs are compared where both are recordings",
                            "a log of nvidia-smi has no line of its program")});
  }
  if (first.value()) {  // a run is held to its spec, whichever is named first
    Arguments swapped = arguments;
    std::swap(swapped.words[0], swapped.words[1]);
    return run_diff(swapped, surroundings);
  }
  if (arguments.words[0] == "-" && arguments.words[1] == "-") {
    return refused({mistake("standard input is one spec, not two", "name a file")});
  }
  if (!second.value()) return compare_specs(arguments, surroundings);
  const Checked<ReadSpec> spec = read_spec(arguments, arguments.words[0]);
  if (!spec.ok()) return refused(spec.diagnostics());
  const RecordedRun& run = *second.value();
  if (const auto* log = std::get_if<UsageLog>(&run)) {
    return compare_usage(arguments, surroundings, spec.value(), *log);
  }
  return compare_trace(arguments, surroundings, spec.value(), std::get<AllocatorTrace>(run));
}

}  // namespace memest
