#include "memest/plan/fit.hpp"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "cli/command.hpp"
#include "cli/spec.hpp"
#include "memest/report/fit_report.hpp"

namespace memest {
namespace {

Arguments with_sets(Arguments arguments, const std::vector<std::string>& sets) {
  arguments.overrides.insert(arguments.overrides.end(), sets.begin(), sets.end());
  return arguments;
}

}  // namespace

Outcome run_fit(const Arguments& arguments, const Surroundings& surroundings) {
  const Arguments asked = with_memory(arguments);
  const Checked<Job> job = read_configuration(asked, asked.words);
  if (!job.ok()) return refused(job.diagnostics());
  if (!job.value().training) {
    return refused(Unavailable{"fit changes a training, and the spec has none"});
  }
  if (job.value().training->recompute_budget) {
    return refused(
        Unavailable{"fit weighs recompute itself: leave 'recompute: {budget: ...}' out"});
  }
  FitRequest request{job.value(), [&](const std::vector<std::string>& sets) {
                       return read_configuration(with_sets(asked, sets), asked.words);
                     }};
  request.threads = std::max(1U, std::thread::hardware_concurrency());
  const auto answer = fit_ladder(request);
  if (const auto* why = std::get_if<Unavailable>(&answer)) return refused(*why);
  const auto& ladder = std::get<FitLadder>(answer);
  const bool fits = ladder.own.verdict == Verdict::fits || ladder.fitting() > 0;
  const Report report =
      report_fit(job.value(), ladder, question_of(asked, asked.words, surroundings));
  Outcome outcome{fits ? ExitCode::yes : ExitCode::no, shown(report, asked, surroundings),
                  job.diagnostics()};
  if (!asked.plot.empty()) outcome.files.push_back({asked.plot, ladder_svg(ladder)});
  return outcome;
}

}  // namespace memest
