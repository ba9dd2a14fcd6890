#include "cli/device/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/device/device.hpp"
#include "cli/device/sample_log.hpp"
#include "cli/machine/interrupt.hpp"
#include "cli/machine/progress.hpp"
#include "cli/machine/terminal.hpp"
#include "cli/spec.hpp"
#include "memest/calibrate/fit_profile.hpp"
#include "memest/calibrate/machine.hpp"
#include "memest/calibrate/measure_sweep.hpp"
#include "memest/diag/environment.hpp"
#include "memest/reader/profile.hpp"
#include "memest/report/gpus/profile_report.hpp"
#include "memest/report/gpus/sweep_report.hpp"

namespace memest {
namespace {

Seconds now() {
  const std::chrono::duration<double> time = std::chrono::steady_clock::now().time_since_epoch();
  return Seconds(time.count());
}

Seconds budget_of(const Arguments& arguments) {
  if (arguments.seconds) return Seconds(static_cast<double>(*arguments.seconds));
  return arguments.quick ? kQuickBudget : kFullBudget;
}

/// "h100-sxm-80gb" of "some/h100-sxm-80gb.profile.yaml".
std::string stem_of(const Arguments& arguments, const std::string& slug) {
  if (arguments.output.empty()) return slug;
  return arguments.output.substr(0, arguments.output.size() - kProfileSuffix.size());
}

/// Measures what the log does not hold yet.
MeasureResult measure(OpenDevice& device, const Sweep& sweep, SampleLog& log,
                      const Arguments& arguments) {
  const InterruptWatch watch;
  std::string under_way;  // what a device that fails was asked for
  ProgressLine line(render_options_of(StandardStream::err, arguments.color), arguments.quiet);
  const MeasureHooks hooks{
      .now = now,
      .interrupted = InterruptWatch::interrupted,
      .begins =
          [&](const MeasureProgress& progress) {
            under_way = progress.next == nullptr ? "fitting" : text_of(progress.next->shape);
            line.show(progress.done, progress.of, under_way, progress.left);
          },
      .measured = [&log](const Sample& sample) { log.add(sample); }};
  const MeasureRequest request{device.device.gpu.slug, budget_of(arguments), log.before()};
  try {
    return measure_sweep(*device.backend, sweep, request, hooks);
  } catch (const EnvironmentError& error) {
    throw EnvironmentError(under_way + ": " + error.what() + "; the samples until then are in '" +
                           log.part_path() + "'");
  }
}

/// Mean clock of the products measured under `load`; 0 where none is known.
double mean_clock(const std::vector<Sample>& samples, Load load) {
  double sum = 0;
  int count = 0;
  for (const Sample& sample : samples) {
    // Only products have a law of what load costs (TileLaw::power_loss).
    const bool counts = std::holds_alternative<MatmulShape>(sample.shape) && sample.load == load &&
                        sample.clock_mhz > 0;
    if (!counts) continue;
    sum += sample.clock_mhz;
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

GpuProfile profile_of(const SweepDevice& device, const std::vector<Sample>& samples) {
  const FitSettings settings{.most_samples = kEverySample,
                             .judge = JudgeBy::held_out_samples,
                             .provenance = Provenance::measured};
  GpuProfile profile = fit_profile(device.gpu, samples, settings).profile;
  if (device.gpu.slug == kHost) profile.machine = profiled_machine_of(device.facts, samples);
  profile.origin = {.date = today(),
                    .device = device.facts.name,
                    .driver = device.facts.driver,
                    .libraries = device.facts.libraries,
                    .burst_clock_mhz = mean_clock(samples, Load::burst),
                    .sustained_clock_mhz = mean_clock(samples, Load::sustained),
                    .sources = {}};
  return profile;
}

/// The profile where --output says; without, in a file of its own, and what it holds is printed.
Outcome answer(const GpuProfile& profile, const SweepDevice& device, const Arguments& arguments,
               const Surroundings& surroundings) {
  const std::string text = write_profile(profile);
  if (!arguments.output.empty()) return {ExitCode::yes, text, {}};
  const std::string path = profile.gpu + std::string(kProfileSuffix);
  const Report report =
      report_profile(profile, device.gpu, {}, {path, std::string(surroundings.version)});
  Outcome outcome{ExitCode::yes, text_of(report.page, surroundings.out), {}};
  outcome.files.push_back({path, text});
  return outcome;
}

/// A run before may have measured another GPU.
Diagnostics strangers_in(const SampleLog& log, const std::string& slug) {
  for (const Sample& sample : log.before()) {
    if (sample.gpu == slug) continue;
    return {mistake(
        "'" + log.part_path() + "' holds samples of '" + sample.gpu + "', not of '" + slug + "'",
        "remove it, or choose another --output")};
  }
  return {};
}

Outcome measure_and_fit(OpenDevice& open, const Sweep& sweep, const Arguments& arguments,
                        const Surroundings& surroundings) {
  SweepDevice& device = open.device;
  const std::string stem = stem_of(arguments, device.gpu.slug);
  const std::string samples_path = stem + ".samples.csv";
  SampleLog log(samples_path);
  if (Diagnostics strangers = strangers_in(log, device.gpu.slug); !strangers.empty()) {
    return refused(std::move(strangers));
  }
  MeasureResult result = measure(open, sweep, log, arguments);
  if (device.gpu.slug == kHost) {
    device.gpu = gpu_of(profiled_machine_of(device.facts, result.samples), kHost);
  }
  Diagnostics warnings = warnings_of(sweep, device, result);
  if (result.end == MeasureEnd::interrupted) {
    warnings.push_back(
        {Severity::note, {}, "the samples so far are in '" + log.part_path() + "'", "", false});
    return {ExitCode::interrupted, "", std::move(warnings)};
  }
  log.finish();
  for (std::size_t i = 0; i < result.samples.size(); ++i) {
    result.samples[i].file = std::filesystem::path(samples_path).filename();
    result.samples[i].line = static_cast<std::int64_t>(i) + 2;  // behind the head
  }
  const GpuProfile profile = profile_of(device, result.samples);
  for (Diagnostic& missing : missing_laws(profile, device.gpu, result.samples)) {
    warnings.push_back(std::move(missing));
  }
  Outcome outcome = answer(profile, device, arguments, surroundings);
  outcome.diagnostics = std::move(warnings);
  return outcome;
}

}  // namespace

std::string today() {
  // In UTC, as system_clock counts.
  const std::chrono::year_month_day date(
      std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

Outcome run_measurement(const Arguments& arguments, const Surroundings& surroundings) {
  if (!arguments.dry_run && !arguments.output.empty() &&
      !arguments.output.ends_with(kProfileSuffix)) {
    return refused({mistake(
        "a measured profile goes to a file NAME.profile.yaml, not to '" + arguments.output + "'",
        "its samples go to NAME.samples.csv beside it")});
  }
  const Checked<std::shared_ptr<OpenDevice>> open = open_device(arguments);
  if (!open.ok()) return refused(open.diagnostics());
  OpenDevice& device = *open.value();
  const Sweep sweep = design_sweep(device.device, budget_of(arguments));
  Outcome outcome =
      arguments.dry_run
          ? Outcome{ExitCode::yes,
                    text_of(report_sweep(sweep, device.device.facts.name), surroundings.out),
                    {}}
          : measure_and_fit(device, sweep, arguments, surroundings);
  outcome.diagnostics.insert(outcome.diagnostics.begin(), open.diagnostics().begin(),
                             open.diagnostics().end());
  return outcome;
}

}  // namespace memest
