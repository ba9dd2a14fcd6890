#include "cli/record/vary.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>
#include <variant>

#include "cli/machine/interrupt.hpp"
#include "cli/machine/write.hpp"
#include "cli/record/record_program.hpp"
#include "cli/record/varied_words.hpp"
#include "cli/spec.hpp"
#include "memest/diag/environment.hpp"
#include "memest/memory/recorded/fit_family.hpp"
#include "memest/memory/recorded/fit_lines.hpp"
#include "memest/reader/family_text.hpp"
#include "memest/report/record/family_report.hpp"

namespace memest {
namespace {

/// A run of the program at a point, and its recordings as files.
struct PointRun {
  SizePoint point;
  ProgramRun program;
  std::vector<FileBesideAnswer> files;
};

std::vector<std::string> names_varied(const std::vector<VariedSize>& varied) {
  std::vector<std::string> names;
  for (const VariedSize& size : varied) names.push_back(size.name);
  return names;
}

/// "run.batch-2.seq-512.memrec" beside "run.memrec".
std::string file_at(const std::string& output, const std::vector<VariedSize>& varied,
                    const SizePoint& point) {
  if (output.empty()) return output;
  const std::filesystem::path path = output;
  std::string name = path.stem().string();
  for (std::size_t i = 0; i < varied.size(); ++i) {
    name += "." + varied[i].name + "-" + std::to_string(point[i]);
  }
  return (path.parent_path() / (name + path.extension().string())).string();
}

/// Throws EnvironmentError where the program failed for a reason of its own.
std::optional<Diagnostic> failure_at(const std::string& at, const ProgramRun& program) {
  if (ran_out(program)) {
    const auto failed = std::ranges::find_if(
        program.processes, [](const ProcessRun& process) { return process.failure.has_value(); });
    const std::string& place = failed->failure->place;
    return Diagnostic{
        Severity::error,
        {},
        "at " + at + " the program runs out of memory" + (place.empty() ? "" : ", at " + place),
        "--memory 1TiB records what it needs",
        true};
  }
  if (!came_to_its_end(program)) {
    throw EnvironmentError("at " + at + " the program ended with exit code " +
                           std::to_string(program.exit_code));
  }
  if (program.processes.empty()) {
    throw EnvironmentError("at " + at +
                           " no process of the program used a GPU through PyTorch: nothing was "
                           "recorded");
  }
  return std::nullopt;
}

/// Processes and their files in the order of their ranks: torchrun starts them in any.
void order_ranks(PointRun& run) {
  std::vector<std::pair<ProcessRun, FileBesideAnswer>> processes;
  for (std::size_t i = 0; i < run.files.size(); ++i) {
    processes.emplace_back(std::move(run.program.processes[i]), std::move(run.files[i]));
  }
  std::ranges::stable_sort(processes, [](const auto& left, const auto& right) {
    const std::string& one = left.first.recording.rank;
    const std::string& other = right.first.recording.rank;
    return one.size() != other.size() ? one.size() < other.size() : one < other;
  });
  for (std::size_t i = 0; i < processes.size(); ++i) {
    run.program.processes[i] = std::move(processes[i].first);
    run.files[i] = std::move(processes[i].second);
  }
}

Checked<std::vector<PointRun>> record_points(const Arguments& arguments, const NullDevice& device,
                                             const std::vector<VariedSize>& varied) {
  const RecordedPoints points = points_of(varied);
  std::vector<SizePoint> all = points.fitted;
  all.push_back(points.held_out);
  std::vector<PointRun> runs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string at = point_text(names_varied(varied), all[i]);
    if (!arguments.quiet) {
      write_stream(stderr, "memest record: run " + std::to_string(i + 1) + " of " +
                               std::to_string(all.size()) + ": " + at + "\n");
    }
    Arguments own = arguments;
    own.words = filled_words(arguments.words, varied, all[i]);
    own.output = file_at(arguments.output, varied, all[i]);
    PointRun run{all[i], {}, {}};
    Checked<ProgramRun> program = record_program(own, device, run.files);
    if (!program.ok()) return program.diagnostics();
    run.program = std::move(program).value();
    if (InterruptWatch::interrupted()) return runs;  // the caller asks too
    if (auto failure = failure_at(at, run.program)) return *std::move(failure);
    order_ranks(run);
    const std::size_t processes = run.program.processes.size();
    if (!runs.empty() && runs.front().program.processes.size() != processes) {
      return Diagnostic{Severity::error,
                        {},
                        "at " + at + " " + std::to_string(processes) +
                            " processes used a GPU, at the first point " +
                            std::to_string(runs.front().program.processes.size()),
                        "",
                        true};
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

/// The refusal beside the recordings of the points that it names, where --output is given.
Outcome refused_family(const FamilyRefusal& refusal, const std::vector<VariedSize>& varied,
                       const std::vector<PointRun>& runs) {
  Outcome outcome;
  std::string names;
  for (const PointRun& run : runs) {
    const bool named = std::ranges::any_of(
        refusal.events, [&](const EventAt& at) { return at.point == run.point; });
    if (!named) continue;
    for (const FileBesideAnswer& file : run.files) {
      if (file.path.empty()) continue;
      names += (names.empty() ? "" : ", ") + file.path;
      outcome.files.push_back(file);
    }
  }
  Outcome refusing = refused({refusal_of(refusal, varied, names)});
  refusing.files = std::move(outcome.files);
  return refusing;
}

/// The sentence of a family without formulas for its work.
std::string parted_text(const PartedLines& parted, const RecordedFamily& family) {
  constexpr std::size_t kShown = 60;
  const auto shown = [](const std::string& line) {
    if (line.empty()) return std::string("nothing");
    return "'" + line.substr(0, kShown) + (line.size() > kShown ? "..." : "") + "'";
  };
  return "the work of a step parts: " + shown(parted.first) + ", and " + shown(parted.other) +
         " at " + point_text(family.names(), parted.point);
}

/// The work of a step at other sizes, or why it has none.
void give_work(const std::vector<PointRun>& runs, std::size_t process, RecordedFamily& family) {
  std::vector<LinesAt> recorded;
  std::optional<ComparableWork> first;
  for (const PointRun& run : runs) {
    auto work = comparable_work(run.files[process].text);
    if (!work) return;
    recorded.push_back({run.point, std::move(work->lines)});
    if (!first) first = std::move(work);
  }
  auto fitted = fit_lines(recorded);
  if (const auto* parted = std::get_if<PartedLines>(&fitted)) {
    family.no_work = parted_text(*parted, family);
    return;
  }
  family.work = std::get<VariedWork>(std::move(fitted));
  family.work->of = first->of;
  family.work->kernels = std::move(first->kernels);
}

/// Every process's family, or the refusal of the first that has none.
std::variant<std::vector<FamilyRun>, FamilyRefusal> fit_processes(
    const std::vector<VariedSize>& varied, const std::vector<PointRun>& runs,
    const std::string& output) {
  std::vector<FamilyRun> families;
  for (std::size_t process = 0; process < runs.front().program.processes.size(); ++process) {
    std::vector<RecordedAt> recorded;
    FamilyRun family;
    for (const PointRun& run : runs) {
      const ProcessRun& own = run.program.processes[process];
      recorded.push_back({run.point, own.recording});
      family.peaks.push_back(own.peaks);
    }
    auto fitted = fit_family(varied, std::move(recorded));
    if (auto* refusal = std::get_if<FamilyRefusal>(&fitted)) return std::move(*refusal);
    family.fitted = std::get<FittedFamily>(std::move(fitted));
    give_work(runs, process, family.fitted.family);
    for (const VariedSize& size : varied) family.shown.push_back(size.values.back());
    family.places = peak_formulas(family.fitted.family, family.shown);
    family.file = file_of(output, process);
    families.push_back(std::move(family));
  }
  return families;
}

void add_new(const std::vector<std::string>& more, std::vector<std::string>& names) {
  for (const std::string& name : more) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
}

}  // namespace

Outcome run_varied(const Arguments& arguments, const NullDevice& device,
                   const Surroundings& surroundings) {
  const auto varied = read_varied(arguments.varied, arguments.words);
  if (!varied.ok()) return refused(varied.diagnostics());
  const auto runs = record_points(arguments, device, varied.value());
  if (InterruptWatch::interrupted()) return {ExitCode::interrupted, "", {}};
  if (!runs.ok()) return refused(runs.diagnostics());
  auto fitted = fit_processes(varied.value(), runs.value(), arguments.output);
  if (const auto* refusal = std::get_if<FamilyRefusal>(&fitted)) {
    return refused_family(*refusal, varied.value(), runs.value());
  }
  VariedProgram program{command_line(arguments.words),
                        device.name,
                        device.capacity,
                        device.context,
                        std::get<std::vector<FamilyRun>>(std::move(fitted)),
                        {},
                        {}};
  Outcome outcome;
  for (const PointRun& run : runs.value()) {
    add_new(run.program.unanswered, program.unanswered);
    add_new(run.program.taken_as_0, program.taken_as_0);
  }
  for (const FamilyRun& family : program.processes) {
    if (family.file.empty()) continue;
    outcome.files.push_back({family.file, write_family(family.fitted.family)});
  }
  const Question question = question_of(arguments, {}, surroundings);
  outcome.prints_answer = true;
  outcome.out = formatted(report_families(program, question), arguments.format, surroundings.out);
  return outcome;
}

}  // namespace memest
