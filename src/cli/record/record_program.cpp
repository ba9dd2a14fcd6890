#include "cli/record/record_program.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "cli/record/child.hpp"
#include "cli/record/run_folder.hpp"
#include "cli/record/used_devices.hpp"
#include "cli/record/vary.hpp"
#include "cli/spec.hpp"
#include "memest/diag/environment.hpp"
#include "memest/reader/read_trace.hpp"
#include "memest/reader/residuals.hpp"
#include "memest/units/text.hpp"

namespace memest {
namespace {

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

ProcessRun process_of(Recording recording, const Hardware& hardware) {
  ProcessRun process;
  process.time = time_of(recording.work, hardware, find_source_margins().step);
  process.peaks = peaks_of(recording.trace);
  process.peak = peak_moment(recording.trace);
  process.failure = failure_of(recording.trace);
  process.growing = growing_places(recording.trace);
  process.kept = kept_for_backward(recording.trace);
  process.recording = std::move(recording);
  return process;
}

/// A program that was run, and where its recordings go.
struct ProgramEnding {
  int exit_code = 0;
  bool masks_keep_all = false;
  std::string output;
  Hardware hardware;
};

/// The program's processes, and their recordings as files.
Checked<std::vector<ProcessRun>> read_processes(const RunFolder& folder, const ProgramEnding& of,
                                                std::vector<FileBesideAnswer>& files) {
  const std::string ending = "# exit code: " + std::to_string(of.exit_code) + "\n" +
                             (of.masks_keep_all ? "# masks: all\n" : "");
  std::vector<ProcessRun> processes;
  std::vector<std::filesystem::path> traces;  // by process
  for (const std::filesystem::path& path : folder.traces()) {
    std::string text = whole_lines(text_of_file(path));
    if (text.empty()) continue;
    text += ending;
    Checked<Recording> recording = read_recording(
        std::make_shared<const SourceText>(SourceText{path.filename().string(), text}));
    if (!recording.ok()) return recording.diagnostics();
    if (recording.value().trace.allocations == 0) continue;
    processes.push_back(process_of(std::move(recording).value(), of.hardware));
    traces.push_back(path);
    const std::string file = file_of(of.output, processes.size() - 1);
    processes.back().file = file;
    files.push_back({file, std::move(text)});
  }
  name_devices(traces, processes);
  return processes;
}

/// The work of a program without an optimizer is all that it did, which is not known where it
/// failed.
void forget_unfinished(ProgramRun& program) {
  if (came_to_its_end(program)) return;
  for (ProcessRun& process : program.processes) {
    const auto* time = std::get_if<RecordedTime>(&process.time);
    if (time != nullptr && !time->of.starts_with("step")) process.time = {};
  }
}

}  // namespace

std::string file_of(const std::string& output, std::size_t process) {
  if (output.empty() || process == 0) return output;
  const std::filesystem::path path = output;
  const std::string name =
      path.stem().string() + "." + std::to_string(process) + path.extension().string();
  return (path.parent_path() / name).string();
}

void keep_named(std::vector<FileBesideAnswer>& files) {
  std::erase_if(files, [](const FileBesideAnswer& file) { return file.path.empty(); });
}

std::string command_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_quoted(word);
  return line;
}

Checked<ProgramRun> record_program(const Arguments& arguments, const NullDevice& device,
                                   std::vector<FileBesideAnswer>& files) {
  const RunFolder folder;
  const RecordOptions options{arguments.devices, arguments.world,  arguments.rank,
                              arguments.steps,   arguments.strict, arguments.masks_keep_all};
  ProgramRun program;
  program.command = command_line(arguments.words);
  program.gpu = device.name;
  program.capacity = device.capacity;
  program.context = device.context;
  program.masks_keep_all = arguments.masks_keep_all;
  auto variables = variables_of(device, options, folder.path());
  if (!arguments.varied.empty()) order_hashes(variables);
  program.exit_code = run_child(arguments.words, variables);
  const std::string journal = text_of_file(folder.journal());
  if (const auto faults = journal_lines(journal, "fault"); !faults.empty()) {
    throw EnvironmentError(faults.front());
  }
  program.unanswered = journal_lines(journal, "unanswered");
  program.taken_as_0 = journal_lines(journal, "zero");
  Hardware hardware;
  hardware.gpu = device.gpu;
  Checked<std::vector<ProcessRun>> processes = read_processes(
      folder,
      {static_cast<int>(program.exit_code), arguments.masks_keep_all, arguments.output, hardware},
      files);
  if (!processes.ok()) return processes.diagnostics();
  program.processes = std::move(processes).value();
  forget_unfinished(program);
  if (program.processes.empty() && came_to_its_end(program) &&
      !journal_lines(journal, "used").empty()) {
    throw EnvironmentError(
        "the program took memory of the device, but nothing watched it: Python reads what memest "
        "record sets up from PYTHONPATH, which -I, -E and -S switch off, and it watches PyTorch "
        "alone");
  }
  return program;
}

}  // namespace memest
