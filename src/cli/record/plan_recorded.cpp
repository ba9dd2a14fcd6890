#include "cli/record/plan_recorded.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "cli/record/play_recording.hpp"
#include "cli/spec.hpp"
#include "memest/memory/recorded/family_at.hpp"
#include "memest/report/record/recorded_plan.hpp"

namespace memest {
namespace {

/// The numbers of a family that no size is given of.
std::vector<std::string> open_numbers(const RecordedJob& job) {
  std::vector<std::string> open;
  const auto* family = std::get_if<RecordedFamily>(&job.recorded);
  if (family == nullptr) return open;
  for (const VariedSize& varied : family->varied) {
    const bool is_given = std::ranges::any_of(
        job.at, [&](const std::string& at) { return at.starts_with(varied.name + "="); });
    if (!is_given) open.push_back(varied.name);
  }
  return open;
}

PlayedUnder under_on(const RecordedJob& job, const GpuSpec& gpu) {
  PlayedUnder under = under_of(job);
  under.memory.reset();
  Hardware hardware = hardware_of(gpu);
  if (job.hardware.price && job.hardware.gpu.slug == gpu.slug) hardware.price = job.hardware.price;
  under.hardware = std::move(hardware);
  return under;
}

double seconds_a_unit(const PlayedRun& run, std::int64_t units) {
  const auto* time = std::get_if<RecordedTime>(&run.time);
  if (time == nullptr) return std::numeric_limits<double>::infinity();
  return time->step.value() / static_cast<double>(units);
}

/// The run that takes least time a unit, among the largest value that fits and its halves down to
/// the recorded ones.
Checked<RankedRun> best_size(const RecordedJob& job, const PlayedUnder& under,
                             const std::string& open) {
  Checked<std::vector<PlayedRun>> runs = played_runs(job.recorded, under, {job.at, open});
  if (!runs.ok()) return runs.diagnostics();
  RankedRun best{std::move(std::move(runs).value().front()), 1};
  const PlayedPoint& point = *best.run.at;
  const VariedSize& varied = point.varied[*point.largest];
  best.units = point.point[*point.largest];
  if (best.run.played.failed) return best;
  const std::int64_t unit = common_unit(varied);
  for (std::int64_t units = best.units / 2 / unit * unit; units >= varied.values.front();
       units = units / 2 / unit * unit) {
    std::vector<std::string> at = job.at;
    at.push_back(open + "=" + std::to_string(units));
    Checked<std::vector<PlayedRun>> smaller = played_runs(job.recorded, under, {std::move(at), ""});
    if (!smaller.ok()) return smaller.diagnostics();
    PlayedRun run = std::move(std::move(smaller).value().front());
    if (run.played.failed) continue;
    if (seconds_a_unit(run, units) >= seconds_a_unit(best.run, best.units)) break;
    best = {std::move(run), units};
  }
  return best;
}

Checked<RankedRun> planned(const RecordedJob& job, const GpuSpec& gpu, const std::string& open) {
  const PlayedUnder under = under_on(job, gpu);
  if (!open.empty()) return best_size(job, under, open);
  Checked<std::vector<PlayedRun>> runs = played_runs(job.recorded, under, {job.at, ""});
  if (!runs.ok()) return runs.diagnostics();
  return RankedRun{std::move(std::move(runs).value().front()), 1};
}

}  // namespace

Outcome plan_recorded(const RecordedJob& job, const std::vector<GpuSpec>& gpus,
                      const Arguments& arguments, const Surroundings& surroundings) {
  const std::vector<std::string> open = open_numbers(job);
  if (open.size() > 1) {
    return refused({mistake(
        "the recording is for every " + open[0] + " and " + open[1] +
            ", of which one may be left open",
        "as in --at " + open[1] + "=" +
            std::to_string(std::get<RecordedFamily>(job.recorded).varied.back().values.back()))});
  }
  RecordedPlan plan{.open = open.empty() ? "" : open.front(), .objective = arguments.objective};
  for (const GpuSpec& gpu : gpus) {
    Checked<RankedRun> run = planned(job, gpu, plan.open);
    if (!run.ok()) return refused(run.diagnostics());
    plan.runs.push_back(std::move(run).value());
  }
  rank(plan);
  const Question question = question_of(arguments, arguments.words, surroundings);
  return {code_of(plan.runs.front().run),
          shown(report_plan(plan, question), arguments, surroundings),
          {}};
}

}  // namespace memest
