#include "memest/plan/estimate.hpp"

#include "command.hpp"
#include "memest/report/estimate_report.hpp"
#include "spec.hpp"

namespace memest {

Outcome run_estimate(const Arguments& arguments, const Surroundings& surroundings) {
  const Checked<Job> job = read_configuration(arguments, arguments.words);
  if (!job.ok()) return refused(job.diagnostics());
  const JobEstimate estimate = estimate_job(job.value());
  const Report report =
      report_estimate(job.value(), estimate, question_of(arguments, arguments.words, surroundings));
  const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
  const bool refuses = memory != nullptr && memory->verdict == Verdict::does_not_fit;
  return {refuses ? ExitCode::no : ExitCode::yes,
          formatted(report, arguments.format, surroundings.out), job.diagnostics()};
}

}  // namespace memest
