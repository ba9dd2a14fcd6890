#include "memest/plan/schedule.hpp"

#include <algorithm>
#include <variant>

#include "cli/command.hpp"
#include "cli/spec.hpp"
#include "memest/report/schedule_report.hpp"

namespace memest {

Outcome run_schedule(const Arguments& arguments, const Surroundings& surroundings) {
  const Arguments asked = with_memory(arguments);
  const Checked<Job> job = read_configuration(asked, asked.words);
  if (!job.ok()) return refused(job.diagnostics());
  const auto answer = schedules_of(job.value());
  if (const auto* why = std::get_if<Unavailable>(&answer)) return refused(*why);
  const auto& schedules = std::get<ScheduleAnswer>(answer);
  const bool fits = std::ranges::any_of(schedules.rows, &ScheduleRow::fits);
  const Report report =
      report_schedules(job.value(), schedules, question_of(asked, asked.words, surroundings));
  Outcome outcome{fits ? ExitCode::yes : ExitCode::no,
                  formatted(report, asked.format, surroundings.out), job.diagnostics()};
  if (!asked.actions.empty()) outcome.files.push_back({asked.actions, actions_csv(schedules)});
  return outcome;
}

}  // namespace memest
