#include "memest/plan/estimate.hpp"

#include "cli/command.hpp"
#include "cli/record/recorded_answers.hpp"
#include "cli/spec.hpp"
#include "memest/reader/preset_needs.hpp"
#include "memest/report/estimate_report.hpp"

namespace memest {
namespace {

/// Whether it fits is the question; without its memory nobody knows.
ExitCode code_of(const JobEstimate& estimate) {
  const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
  if (memory == nullptr) return ExitCode::not_known;
  return memory->overall() == Verdict::does_not_fit ? ExitCode::no : ExitCode::yes;
}

/// The command for a preset that is named alone, on the hardware that it trains on.
std::string fitting_command(const Arguments& arguments) {
  const bool alone = arguments.words.size() == 1 && arguments.gpus.empty() &&
                     arguments.counts.empty() && arguments.overrides.empty();
  if (!alone) return {};
  const std::string& preset = arguments.words.front();
  const std::optional<PresetNeed> need = find_preset_need(preset);
  if (!need) return {};
  return "memest estimate " + preset + " --gpus " + std::to_string(need->gpus) + " " + need->flags;
}

}  // namespace

Outcome run_estimate(const Arguments& arguments, const Surroundings& surroundings) {
  if (auto recorded = estimate_recorded(arguments, surroundings)) return *std::move(recorded);
  const Checked<Job> job = read_configuration(arguments, arguments.words);
  if (!job.ok()) return refused(job.diagnostics());
  JobEstimate estimate = estimate_job(job.value());
  find_largest_micro_batch(job.value(), estimate);
  Question question = question_of(arguments, arguments.words, surroundings);
  if (code_of(estimate) == ExitCode::no) question.fitting = fitting_command(arguments);
  const Report report = report_estimate(job.value(), estimate, question);
  return {code_of(estimate), shown(report, arguments, surroundings), job.diagnostics()};
}

}  // namespace memest
