#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "cli/lock/lock_file.hpp"
#include "cli/lock/weigh_changes.hpp"
#include "cli/record/recorded_answers.hpp"
#include "cli/spec.hpp"
#include "memest/diag/expect.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/plan/in_parallel.hpp"
#include "memest/reader/spec_files.hpp"
#include "memest/reader/written_spec.hpp"
#include "memest/report/check_report.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// A file that was looked at: none where it was found and is no spec.
using Looked = std::optional<CheckedFile>;

CheckedFile refused_file(const std::string& file, Diagnostics errors) {
  CheckedFile result;
  result.file = file;
  result.errors = std::move(errors);
  return result;
}

/// A size that leaves its range is one file's mistake, not the end of the run.
template <class Check>
CheckedFile checked_in_range(const std::string& file, const Check& check) {
  try {
    return check();
  } catch (const OverflowError& error) {
    return refused_file(
        file, {{Severity::error,
                {std::make_shared<const SourceText>(SourceText{file, ""}), 0, 0, 0},
                std::string("a number of this spec is too large to count: ") + error.what(),
                "sizes multiply: look for one with too many zeros"}});
  }
}

CheckedFile check_job(const std::string& file, const Job& job, std::vector<SpecLeaf> keys) {
  return checked_in_range(file, [&] {
    const JobEstimate estimate = estimate_job(job);
    CheckedFile result = check_file(file, job, estimate);
    put_figures(estimate, result.now);
    result.now.rests_on = rests_on(job, keys);
    result.now.keys = std::move(keys);
    return result;
  });
}

CheckedFile check_run(const std::string& file, const RecordedJob& job, std::vector<SpecLeaf> keys) {
  return checked_in_range(file, [&] {
    CheckedFile result = check_recorded(file, job);
    result.now.keys = std::move(keys);
    return result;
  });
}

Looked check_one(const FoundFile& found, const Arguments& arguments) {
  WrittenSpec written;
  if (is_lockable(found.path)) written = read_written_spec(found.path);
  if (!found.named && !written.is_spec) return std::nullopt;
  const auto recorded = find_recorded(arguments, {found.path});
  if (!recorded.ok()) return refused_file(found.path, recorded.diagnostics());
  if (recorded.value()) return check_run(found.path, *recorded.value(), std::move(written.keys));
  const Checked<Job> job = read_configuration(arguments, {found.path});
  if (!job.ok()) return refused_file(found.path, job.diagnostics());
  return check_job(found.path, job.value(), std::move(written.keys));
}

CheckedSpecs check_all(const std::vector<FoundFile>& found, const Arguments& arguments) {
  std::vector<Looked> looked(found.size());
  in_parallel(found.size(), threads_of(arguments),
              [&](std::size_t i) { looked[i] = check_one(found[i], arguments); });
  CheckedSpecs specs;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (looked[i]) {
      specs.files.push_back(*std::move(looked[i]));
    } else {
      specs.passed_over.push_back(found[i].path);
    }
  }
  return specs;
}

ExitCode code_of(FileStatus status) {
  switch (status) {
    case FileStatus::within:
      return ExitCode::yes;
    case FileStatus::not_locked:
    case FileStatus::moved:
    case FileStatus::over:
      return ExitCode::no;
    case FileStatus::not_known:
      return ExitCode::not_known;
    case FileStatus::invalid:
      return ExitCode::bad_input;
  }
  unreachable("a file status beyond the enum");
}

std::string answer_of(const CheckedSpecs& specs, const Arguments& arguments,
                      const Surroundings& surroundings) {
  switch (arguments.format) {
    case Format::github:
      return annotations_of(specs);
    case Format::junit:
      return junit_of(specs);
    case Format::sarif:
      return sarif_of(specs, surroundings.version);
    case Format::gitlab:
      return code_quality_of(specs);
    case Format::markdown:
      return comment_of(specs);
    case Format::text:
    case Format::json:
    case Format::csv:
    case Format::html:
      break;
  }
  const Question question = question_of(arguments, arguments.words, surroundings);
  return shown(report_check(specs, question), arguments, surroundings);
}

/// The mistakes, file by file; and where the answer is for machines, the line that people read
/// in the log.
Diagnostics told(const CheckedSpecs& specs, Format format) {
  Diagnostics diagnostics;
  for (const CheckedFile& file : specs.files) {
    append(file.errors, diagnostics);
  }
  const bool said =
      format == Format::text || format == Format::markdown || format == Format::github;
  if (!said) {
    diagnostics.push_back({Severity::note, {}, summary_of(specs), ""});
  }
  return diagnostics;
}

}  // namespace

Outcome run_check(const Arguments& arguments, const Surroundings& surroundings) {
  const Checked<LockFile> lock = open_lock(arguments);
  if (!lock.ok()) return refused(lock.diagnostics());
  const Checked<std::vector<FoundFile>> found = find_spec_files(arguments.words);
  if (!found.ok()) return refused(found.diagnostics());
  CheckedSpecs specs = check_all(found.value(), arguments);
  const LockFile& file = lock.value();
  hold_to_lock(file, surroundings.version, specs);
  weigh_changes(specs, threads_of(arguments));
  Outcome outcome;
  if (arguments.update) outcome.files = updated_lock(file, specs);
  outcome.code = code_of(specs.status());
  outcome.out = answer_of(specs, arguments, surroundings);
  outcome.diagnostics = told(specs, arguments.format);
  if (arguments.update && !specs.updated) {
    outcome.diagnostics.push_back(
        {Severity::note, {}, file.path + " is not written: a file is no spec", ""});
  }
  append(lock.diagnostics(), outcome.diagnostics);
  return outcome;
}

}  // namespace memest
