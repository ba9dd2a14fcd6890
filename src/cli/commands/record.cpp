#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "cli/record/child.hpp"
#include "cli/record/null_device.hpp"
#include "cli/record/run_folder.hpp"
#include "cli/spec.hpp"
#include "memest/diag/environment.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/read_trace.hpp"
#include "memest/reader/residuals.hpp"
#include "memest/report/record_report.hpp"
#include "memest/units/text.hpp"

namespace memest {
namespace {

/// The GPU with the memory of --memory.
Checked<NullDevice> device_of(const GpuSpec& gpu, const Arguments& arguments) {
  std::optional<NullDevice> device = null_device_of(gpu);
  if (!device) {
    return mistake(gpu.name +
                       " cannot be pretended: memest record stands in for GPUs that "
                       "run CUDA",
                   "memest gpus lists them, with their compute capability");
  }
  if (!arguments.memory.empty()) {
    const ParsedBytes memory = parse_bytes(arguments.memory);
    if (memory.error || memory.value <= device->context) {
      return mistake("--memory takes a size as 80GiB, more than the context's " +
                         binary_text(device->context) + ", not '" + arguments.memory + "'",
                     "");
    }
    device->capacity = memory.value;
  }
  return *std::move(device);
}

/// The lines of a journal that begin with a word, without it, each once.
std::vector<std::string> journal_lines(const std::string& journal, const std::string& word) {
  std::vector<std::string> lines;
  std::size_t at = 0;
  while (at < journal.size()) {
    const std::size_t end = std::min(journal.find('\n', at), journal.size());
    const std::string line = journal.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(word + " ")) continue;
    std::string rest = line.substr(word.size() + 1);
    if (std::ranges::find(lines, rest) == lines.end()) lines.push_back(std::move(rest));
  }
  return lines;
}

/// A process that was ended while it wrote leaves half a line.
std::string whole_lines(std::string text) {
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
  return text;
}

/// "run.memrec" of the first process, "run.1.memrec" of the second.
std::string file_of(const std::string& output, std::size_t process) {
  if (output.empty() || process == 0) return output;
  const std::filesystem::path path = output;
  const std::string name =
      path.stem().string() + "." + std::to_string(process) + path.extension().string();
  return (path.parent_path() / name).string();
}

std::variant<std::monostate, RecordedTime, Unavailable> time_on(const Hardware& hardware,
                                                                const Recording& recording) {
  if (!recording.work || recording.work->items.empty()) return {};
  auto time = time_of(*recording.work, hardware, find_source_margins().step);
  if (auto* known = std::get_if<RecordedTime>(&time)) return std::move(*known);
  return std::get<Unavailable>(std::move(time));
}

ProcessRun process_of(Recording recording, const Hardware& hardware) {
  ProcessRun process;
  process.time = time_on(hardware, recording);
  process.peaks = peaks_of(recording.trace);
  process.peak = peak_moment(recording.trace);
  process.failure = failure_of(recording.trace);
  process.growing = growing_places(recording.trace);
  process.recording = std::move(recording);
  return process;
}

/// The program's processes, and their recordings as files.
Checked<std::vector<ProcessRun>> read_processes(const RunFolder& folder, const std::string& output,
                                                const Hardware& hardware,
                                                std::vector<FileBesideAnswer>& files) {
  std::vector<ProcessRun> processes;
  for (const std::filesystem::path& path : folder.traces()) {
    std::string text = whole_lines(text_of_file(path));
    if (text.empty()) continue;
    Checked<Recording> recording = read_recording(
        std::make_shared<const SourceText>(SourceText{path.filename().string(), text}));
    if (!recording.ok()) return recording.diagnostics();
    if (recording.value().trace.allocations == 0) continue;
    processes.push_back(process_of(std::move(recording).value(), hardware));
    const std::string file = file_of(output, processes.size() - 1);
    processes.back().file = file;
    if (!file.empty()) files.push_back({file, std::move(text)});
  }
  return processes;
}

/// The work of a program without an optimizer is all that it did, which is not known where it
/// failed.
void forget_unfinished(ProgramRun& program) {
  if (came_to_its_end(program)) return;
  for (ProcessRun& process : program.processes) {
    const auto& work = process.recording.work;
    if (work && !work->of.starts_with("step")) process.time = {};
  }
}

std::string command_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_quoted(word);
  return line;
}

/// Exit code 3 where nothing was recorded, or the program failed for a reason of its own.
ExitCode code_of(const ProgramRun& program) {
  if (ran_out(program)) return ExitCode::no;
  const bool whole = !program.processes.empty() && came_to_its_end(program);
  return whole ? ExitCode::yes : ExitCode::environment;
}

void refuse_real_gpu(const Arguments& arguments) {
  if (arguments.force || !has_real_gpu()) return;
  throw EnvironmentError(
      "this machine has a driver of NVIDIA's, and the program would find a device that computes "
      "nothing instead of its GPU: --force records it all the same");
}

}  // namespace

Outcome run_record(const Arguments& arguments, const Surroundings& surroundings) {
  const Checked<GpuSpec> gpu = find_gpu(arguments.gpu.empty() ? kDefaultGpu : arguments.gpu);
  if (!gpu.ok()) return refused(gpu.diagnostics());
  const Checked<NullDevice> device = device_of(gpu.value(), arguments);
  if (!device.ok()) return refused(device.diagnostics());
  refuse_real_gpu(arguments);
  const RunFolder folder;
  const RecordOptions options{arguments.devices, arguments.world, arguments.rank, arguments.steps,
                              arguments.strict};
  ProgramRun program;
  program.command = command_line(arguments.words);
  program.gpu = device.value().name;
  program.capacity = device.value().capacity;
  program.context = device.value().context;
  program.exit_code =
      run_child(arguments.words, variables_of(device.value(), options, folder.path()));
  const std::string journal = text_of_file(folder.journal());
  if (const auto faults = journal_lines(journal, "fault"); !faults.empty()) {
    throw EnvironmentError(faults.front());
  }
  program.unanswered = journal_lines(journal, "unanswered");
  program.taken_as_0 = journal_lines(journal, "zero");
  Outcome outcome;
  Hardware hardware;
  hardware.gpu = gpu.value();
  Checked<std::vector<ProcessRun>> processes =
      read_processes(folder, arguments.output, hardware, outcome.files);
  if (!processes.ok()) return refused(processes.diagnostics());
  program.processes = std::move(processes).value();
  forget_unfinished(program);
  if (program.processes.empty() && came_to_its_end(program) &&
      !journal_lines(journal, "used").empty()) {
    throw EnvironmentError(
        "the program took memory of the device, but nothing watched it: Python reads what memest "
        "record sets up from PYTHONPATH, which -I, -E and -S switch off, and it watches PyTorch "
        "alone");
  }
  const Question question = question_of(arguments, {}, surroundings);
  outcome.code = code_of(program);
  outcome.prints_answer = true;
  outcome.out = formatted(report_recording(program, question), arguments.format, surroundings.out);
  return outcome;
}

}  // namespace memest
