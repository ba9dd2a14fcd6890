#include <algorithm>
#include <utility>

#include "command.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/report/check_report.hpp"
#include "spec.hpp"

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

/// Bad input outweighs a budget that is broken: the answer is not known then.
ExitCode code_of(const std::vector<CheckedFile>& files) {
  ExitCode code = ExitCode::yes;
  for (const CheckedFile& file : files) {
    switch (file.status()) {
      case FileStatus::within:
        break;
      case FileStatus::over:
        code = std::max(code, ExitCode::no);
        break;
      case FileStatus::invalid:
        code = std::max(code, ExitCode::bad_input);
        break;
    }
  }
  return code;
}

std::string shown(const std::vector<CheckedFile>& files, const Arguments& arguments,
                  const Surroundings& surroundings) {
  if (arguments.format == Format::github) return annotations_of(files);
  if (arguments.format == Format::junit) return junit_of(files);
  const Question question = question_of(arguments, arguments.words, surroundings);
  return formatted(report_check(files, question), arguments.format, surroundings.out);
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
  return {code_of(files), shown(files, arguments, surroundings), std::move(diagnostics)};
}

}  // namespace memest
