#include <utility>
#include <variant>

#include "cli/command.hpp"
#include "cli/record/recorded_answers.hpp"
#include "cli/spec.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/report/estimate_report.hpp"
#include "memest/report/roofline_report.hpp"

namespace memest {

Outcome run_roofline(const Arguments& arguments, const Surroundings& surroundings) {
  if (auto recorded = roofline_recorded(arguments, surroundings)) return *std::move(recorded);
  const Checked<Job> job = read_configuration(arguments, arguments.words);
  if (!job.ok()) return refused(job.diagnostics());
  const JobEstimate estimate = estimate_job(job.value());
  if (const auto* why = std::get_if<Unavailable>(&estimate.time)) {
    return refused({{Severity::error, {}, "there is no time to draw: " + why->sentence, "", true}});
  }
  const auto& time = std::get<TimeEstimate>(estimate.time);
  Report report =
      report_roofline(job.value(), time, question_of(arguments, arguments.words, surroundings));
  report.headlines = headlines_of(estimate);
  Outcome outcome{ExitCode::yes, shown(report, arguments, surroundings), job.diagnostics()};
  if (!arguments.plot.empty()) {
    outcome.files.push_back({arguments.plot, roofline_svg(job.value(), time)});
  }
  return outcome;
}

}  // namespace memest
