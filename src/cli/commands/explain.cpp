#include <utility>

#include "cli/command.hpp"
#include "cli/spec.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/report/explain_report.hpp"

namespace memest {

Outcome run_explain(const Arguments& arguments, const Surroundings& surroundings) {
  const std::vector<std::string> files = {arguments.words[0]};
  const std::string term = arguments.words.size() > 1 ? arguments.words[1] : "";
  const Checked<Job> job = read_configuration(arguments, files);
  if (!job.ok()) return refused(job.diagnostics());
  const JobEstimate estimate = estimate_job(job.value());
  const Checked<std::vector<Explanation>> chosen = select(explain(job.value(), estimate), term);
  const bool is_whole = std::holds_alternative<MemoryAnswer>(estimate.memory);
  if (!chosen.ok() && is_whole) return refused(chosen.diagnostics());
  const std::vector<Explanation> rows = chosen.ok() ? chosen.value() : std::vector<Explanation>();
  const bool is_known = is_whole || (!term.empty() && !rows.empty());
  const Report report = report_explanations(job.value(), estimate, {rows, is_known},
                                            question_of(arguments, files, surroundings));
  return {is_known ? ExitCode::yes : ExitCode::not_known,
          formatted(report, arguments.format, surroundings.out), job.diagnostics()};
}

}  // namespace memest
