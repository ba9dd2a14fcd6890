#include "memest/reader/export.hpp"

#include <filesystem>
#include <string>
#include <system_error>

#include "cli/command.hpp"
#include "cli/overwritten.hpp"
#include "cli/spec.hpp"

namespace memest {
namespace {

bool is_folder(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::is_directory(path, unknown);
}

/// How to run files that have no room for it.
Diagnostics note_of(const ExportedJob& exported) {
  if (exported.launch.empty()) return {};
  return {{Severity::note, {}, "it is run by: " + exported.launch, ""}};
}

/// The files below the folder of --output, and their names as the answer.
Outcome in_folder(const ExportedJob& exported, const Arguments& arguments) {
  Outcome outcome{ExitCode::yes, "", note_of(exported)};
  outcome.folder = arguments.output;
  outcome.prints_answer = true;
  for (const ExportedFile& file : exported.files) {
    const std::string path = (std::filesystem::path(arguments.output) / file.name).string();
    Arguments one = arguments;
    one.output = path;
    if (Diagnostics over = find_overwritten(*find_command("export"), one); !over.empty()) {
      return refused(std::move(over));
    }
    outcome.files.push_back({path, file.text});
    outcome.out += path + "\n";
  }
  return outcome;
}

}  // namespace

Outcome run_export(const Arguments& arguments, const Surroundings&) {
  if (arguments.to.empty()) {
    std::string known;
    for (const std::string_view name : export_targets()) {
      known += (known.empty() ? "" : ", ") + std::string(name);
    }
    return refused({mistake("which program is to run the job?", "--to takes " + known)});
  }
  const Checked<Job> job = read_configuration(arguments, arguments.words);
  if (!job.ok()) return refused(job.diagnostics());
  const Checked<ExportedJob> exported = export_job(job.value(), arguments.to);
  if (!exported.ok()) return refused(exported.diagnostics());
  const ExportedJob& files = exported.value();
  if (is_folder(arguments.output) || (files.files.size() > 1 && !arguments.output.empty())) {
    return in_folder(files, arguments);
  }
  if (files.files.size() > 1) {
    return refused({mistake("these are " + std::to_string(files.files.size()) + " files",
                            "--output FOLDER says where they go")});
  }
  return {ExitCode::yes, files.files.front().text, note_of(files)};
}

}  // namespace memest
