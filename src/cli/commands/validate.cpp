#include <algorithm>
#include <utility>

#include "cli/command.hpp"
#include "cli/spec.hpp"
#include "memest/plan/layout_order.hpp"
#include "memest/plan/residuals.hpp"
#include "memest/plan/validation.hpp"
#include "memest/reader/accuracy.hpp"
#include "memest/reader/record.hpp"
#include "memest/reader/residuals.hpp"
#include "memest/report/validation_report.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Who published the run; none where nobody did.
std::optional<RunSource> source_of(const Record& record) {
  if (record.framework.empty()) return std::nullopt;
  return RunSource{.publication = record.source,
                   .framework = record.framework,
                   .gpu = record.job ? record.job->hardware.gpu.slug : "",
                   .year = record.year};
}

ValidatedRun refused_run(const Record& record, std::string refusal) {
  ValidatedRun run;
  run.id = record.id;
  run.refusal = std::move(refusal);
  run.source = source_of(record);
  if (run.source) run.comparisons = compare(record.measured, {});
  return run;
}

/// A record that cannot be counted is refused alone: the others are compared all the same.
ValidatedRun validated(const Record& record) {
  if (!record.job) return refused_run(record, record.refusal);
  try {
    ValidatedRun run = validate_run(record.id, *record.job, record.measured);
    run.source = source_of(record);
    set_apart(run, record.approximation);
    return run;
  } catch (const OverflowError&) {
    return refused_run(record, "a number of this spec is too large to count");
  }
}

}  // namespace

Outcome run_validate(const Arguments& arguments, const Surroundings& surroundings) {
  Diagnostics mistakes;
  Diagnostics warnings;
  std::vector<Record> records;
  for (const std::string& file : arguments.words) {
    Checked<std::vector<Record>> read = read_records(file);
    append(read.diagnostics(), read.ok() ? warnings : mistakes);
    if (!read.ok()) continue;
    for (Record& record : std::move(read).value()) records.push_back(std::move(record));
  }
  AccuracyLines lines;
  if (!arguments.lines.empty()) {
    Checked<AccuracyLines> read = read_accuracy_lines(arguments.lines);
    append(read.diagnostics(), mistakes);
    if (read.ok()) lines = std::move(read).value();
  }
  if (!mistakes.empty()) return refused(std::move(mistakes));

  ValidationAnswer answer;
  answer.held = !arguments.lines.empty();
  answer.runs.reserve(records.size());
  for (const Record& record : records) answer.runs.push_back(validated(record));
  answer.cells = ranked_cells(answer.runs);
  answer.intervals = told_intervals(answer.runs);
  if (answer.held) answer.broken = hold_to_lines(answer.runs, lines);
  const Report report =
      report_validation(answer, question_of(arguments, arguments.words, surroundings));
  Outcome outcome{answer.broken.empty() ? ExitCode::yes : ExitCode::no,
                  shown(report, arguments, surroundings), std::move(warnings)};
  append(answer.broken, outcome.diagnostics);
  if (!arguments.plot.empty()) outcome.files.push_back({arguments.plot, scatter_of(answer.runs)});
  if (!arguments.residuals.empty()) {
    const SourceMargins published = source_margins_of(answer.intervals, answer.cells);
    outcome.files.push_back(
        {arguments.residuals, write_residuals(margins_of(answer.runs), published)});
  }
  return outcome;
}

}  // namespace memest
