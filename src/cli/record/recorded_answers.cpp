#include "cli/record/recorded_answers.hpp"

#include <utility>

#include "cli/record/play_recording.hpp"
#include "cli/spec.hpp"
#include "memest/memory/recorded/recorded_course.hpp"
#include "memest/memory/recorded_use.hpp"
#include "memest/plan/recorded_needs.hpp"
#include "memest/reader/recorded_job.hpp"
#include "memest/reader/written_spec.hpp"
#include "memest/report/record/recorded_timeline.hpp"
#include "memest/report/roofline_report.hpp"

namespace memest {
namespace {

/// More than any device has.
constexpr Bytes kNoLimit(std::int64_t{1} << 50U);

Checked<PlayedRun> played_once(const RecordedJob& job, const PlayedUnder& under) {
  Checked<std::vector<PlayedRun>> runs = played_runs(job.recorded, under, {job.at, ""});
  if (!runs.ok()) return runs.diagnostics();
  return std::move(std::move(runs).value().front());
}

/// The run with every request of it granted, to know what it needs where it does not fit.
Checked<PlayedRun> play_granted(const RecordedJob& job) {
  PlayedUnder under = under_of(job);
  under.reservable.reset();
  under.memory = kNoLimit;
  return played_once(job, under);
}

std::optional<Bytes> capacity_of(const RecordedJob& job, const PlayedRun& run) {
  if (job.hardware.memory) return run.available + run.trace.context;
  return job.hardware.assumed ? std::nullopt : std::optional(run.trace.device_memory);
}

/// A flag that asks for more of a spec's events than a recording tells; empty where none does.
std::string flag_of_events(const Arguments& arguments) {
  if (!arguments.against.empty()) return "--against";
  if (!arguments.snapshot.empty()) return "--snapshot";
  if (!arguments.pack.empty()) return "--pack";
  if (!arguments.trace.empty()) return "--trace";
  if (arguments.data_rank) return "--data-rank";
  if (arguments.rank != 0) return "--rank";
  return arguments.reuse ? "--reuse" : "";
}

/// Why a step has no place below a roof.
std::string why_undrawn(const RecordedJob& job, const PlayedRun& run) {
  if (const auto* why = std::get_if<Unavailable>(&run.time)) return why->sentence;
  if (std::holds_alternative<RecordedTime>(run.time)) {
    return "no rate is known for the step's products";
  }
  return job.hardware.assumed ? "the recording says no GPU" : "no step's work is recorded";
}

}  // namespace

Checked<std::optional<RecordedJob>> find_recorded(const Arguments& arguments,
                                                  const std::vector<std::string>& files) {
  const Checked<ReadRequest> request = configuration_request(arguments, files);
  if (!request.ok()) return request.diagnostics();
  Checked<std::optional<RecordedJob>> job = find_recorded_job(request.value());
  if (!job.ok() || !job.value() || !job.value()->hardware.assumed) return job;
  // PyTorch's memory snapshot does not say what the device has.
  if (job.value()->hardware.memory || recorded_memory(*job.value()) < kNoLimit) return job;
  return mistake("'" + job.value()->file + "' does not say which device it was recorded on",
                 "--gpu NAME; memest gpus lists them");
}

std::optional<Outcome> estimate_recorded(const Arguments& arguments,
                                         const Surroundings& surroundings) {
  const auto job = find_recorded(arguments, arguments.words);
  if (!job.ok()) return refused(job.diagnostics());
  if (!job.value()) return std::nullopt;
  Checked<PlayedRun> run = played_once(*job.value(), under_of(*job.value()));
  if (!run.ok()) return refused(run.diagnostics());
  std::vector<PlayedRun> runs;
  runs.push_back(std::move(run).value());
  const Question question = question_of(arguments, arguments.words, surroundings);
  return Outcome{
      code_of(runs.front()), shown(report_play(runs, question), arguments, surroundings), {}};
}

std::optional<Outcome> roofline_recorded(const Arguments& arguments,
                                         const Surroundings& surroundings) {
  const auto job = find_recorded(arguments, arguments.words);
  if (!job.ok()) return refused(job.diagnostics());
  if (!job.value()) return std::nullopt;
  const Checked<PlayedRun> run = play_granted(*job.value());
  if (!run.ok()) return refused(run.diagnostics());
  const auto* known = std::get_if<RecordedTime>(&run.value().time);
  if (known == nullptr || !known->peak) {
    return refused(
        Unavailable{"there is no time to draw: " + why_undrawn(*job.value(), run.value())});
  }
  const GpuSpec& gpu = job.value()->hardware.gpu;
  const Report report =
      report_roofline(gpu, *known, question_of(arguments, arguments.words, surroundings));
  Outcome outcome{ExitCode::yes, shown(report, arguments, surroundings), {}};
  if (!arguments.plot.empty()) outcome.files.push_back({arguments.plot, roofline_svg(gpu, *known)});
  return outcome;
}

std::optional<Outcome> timeline_recorded(const Arguments& arguments,
                                         const Surroundings& surroundings) {
  const auto job = find_recorded(arguments, arguments.words);
  if (!job.ok()) return refused(job.diagnostics());
  if (!job.value()) return std::nullopt;
  if (const std::string flag = flag_of_events(arguments); !flag.empty()) {
    return refused(Unavailable{flag + " is for the timeline of a spec: of a recorded run there are "
                                      "the answer, --csv and --html"});
  }
  const PlayedUnder under = under_of(*job.value());
  const Checked<PlayedRun> read = played_once(*job.value(), under);
  if (!read.ok()) return refused(read.diagnostics());
  const PlayedRun& run = read.value();
  const RecordedCourse course =
      course_of(run.trace, under.settings.value_or(run.trace.settings), run.available);
  Outcome outcome;
  outcome.code = code_of(run);
  if (!arguments.csv.empty()) outcome.files.push_back({arguments.csv, events_csv(run, course)});
  const Report report =
      report_timeline(run, course, question_of(arguments, arguments.words, surroundings));
  if (!arguments.html.empty()) {
    outcome.files.push_back({arguments.html, browser_page(report, arguments, surroundings)});
  }
  outcome.out = arguments.format == Format::csv ? events_csv(run, course)
                                                : shown(report, arguments, surroundings);
  return outcome;
}

CheckedFile check_recorded(const std::string& file, const RecordedJob& job) {
  CheckedFile refusal;
  refusal.file = file;
  const Checked<PlayedRun> run = played_once(job, under_of(job));
  refusal.errors = run.diagnostics();
  if (!run.ok()) return refusal;
  const bool is_granted = !run.value().played.failed;
  const Checked<PlayedRun> granted = is_granted ? run : play_granted(job);
  refusal.errors = granted.diagnostics();
  if (!granted.ok()) return refusal;
  const AllocatorStatistics& taken = granted.value().played.end;
  const AllocatorTrace& trace = granted.value().trace;
  const RecordedNeeds needs{.capacity = capacity_of(job, run.value()),
                            .fits = is_granted,
                            .whole = run.value().whole,
                            .allocated = taken.allocated.peak,
                            .reserved = taken.reserved.peak,
                            .context = trace.context,
                            .time = granted.value().time};
  CheckedFile checked = check_recording(file, job.budget, needs, peak_moment(trace));
  put_figures(needs, checked.now);
  checked.now.rests_on = rests_on(job);
  return checked;
}

}  // namespace memest
