#include <algorithm>
#include <utility>

#include "cli/command.hpp"
#include "cli/spec.hpp"
#include "memest/diag/expect.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/report/check_report.hpp"

namespace memest {
namespace {

CheckedFile check_one(const std::string& file, const Arguments& arguments) {
  const Checked<Job> job = read_configuration(arguments, {file});
  if (!job.ok()) {
    CheckedFile result;
    result.file = file;
    result.errors = job.diagnostics();
    return result;
  }
  return check_file(file, job.value(), estimate_job(job.value()));
}

ExitCode code_of(FileStatus status) {
  switch (status) {
    case FileStatus::within:
      return ExitCode::yes;
    case FileStatus::over:
      return ExitCode::no;
    case FileStatus::not_known:
      return ExitCode::not_known;
    case FileStatus::invalid:
      return ExitCode::bad_input;
  }
  unreachable("a file status beyond the enum");
}

/// The worst of all: what cannot be told outweighs a budget that is broken, bad input both.
ExitCode code_of(const std::vector<CheckedFile>& files) {
  FileStatus worst = FileStatus::within;
  for (const CheckedFile& file : files) worst = std::max(worst, file.status());
  return code_of(worst);
}

std::string answer_of(const std::vector<CheckedFile>& files, const Arguments& arguments,
                      const Surroundings& surroundings) {
  if (arguments.format == Format::github) return annotations_of(files);
  if (arguments.format == Format::junit) return junit_of(files);
  const Question question = question_of(arguments, arguments.words, surroundings);
  return shown(report_check(files, question), arguments, surroundings);
}

}  // namespace

Outcome run_check(const Arguments& arguments, const Surroundings& surroundings) {
  std::vector<CheckedFile> files;
  Diagnostics diagnostics;
  for (const std::string& name : arguments.words) {
    files.push_back(check_one(name, arguments));
    const Diagnostics& errors = files.back().errors;
    diagnostics.insert(diagnostics.end(), errors.begin(), errors.end());
  }
  return {code_of(files), answer_of(files, arguments, surroundings), std::move(diagnostics)};
}

}  // namespace memest
