#include "memest/plan/estimate.hpp"

#include "command.hpp"
#include "memest/report/estimate_report.hpp"
#include "spec.hpp"

namespace memest {
namespace {

/// Whether it fits is the question; without its memory nobody knows.
ExitCode code_of(const JobEstimate& estimate) {
  const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
  if (memory == nullptr) return ExitCode::not_known;
  return memory->verdict == Verdict::does_not_fit ? ExitCode::no : ExitCode::yes;
}

}  // namespace

Outcome run_estimate(const Arguments& arguments, const Surroundings& surroundings) {
  const Checked<Job> job = read_configuration(arguments, arguments.words);
  if (!job.ok()) return refused(job.diagnostics());
  JobEstimate estimate = estimate_job(job.value());
  find_largest_micro_batch(job.value(), estimate);
  const Report report =
      report_estimate(job.value(), estimate, question_of(arguments, arguments.words, surroundings));
  return {code_of(estimate), formatted(report, arguments.format, surroundings.out),
          job.diagnostics()};
}

}  // namespace memest
