#include <algorithm>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/device/measure.hpp"
#include "cli/flags.hpp"
#include "cli/spec.hpp"
#include "memest/calibrate/fit_profile.hpp"
#include "memest/calibrate/impossible_samples.hpp"
#include "memest/calibrate/measure_sweep.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/profile.hpp"
#include "memest/reader/samples.hpp"

namespace memest {
namespace {

/// The samples of all files, under the load that --load says of them.
Checked<std::vector<Sample>> read_all(const Arguments& arguments) {
  std::vector<Sample> samples;
  Diagnostics warnings;
  Diagnostics mistakes;
  for (const std::string& file : arguments.from) {
    const Checked<SampleTable> table = read_samples(file);
    append(table.diagnostics(), table.ok() ? warnings : mistakes);
    if (!table.ok()) continue;
    for (Sample& sample : table.value().samples()) {
      if (arguments.load == Load::sustained) sample.load = Load::sustained;
      samples.push_back(std::move(sample));
    }
  }
  if (!mistakes.empty()) return mistakes;
  return {std::move(samples), std::move(warnings)};
}

/// The GPU type that `name`, as a source writes it, stands for.
std::string slug_of(const std::string& name) {
  const Checked<GpuSpec> gpu = find_gpu(name);
  return gpu.ok() ? gpu.value().slug : "";
}

/// Each name that the samples give their GPU, once.
std::vector<std::string> gpu_names(const std::vector<Sample>& samples) {
  std::vector<std::string> names;
  for (const Sample& sample : samples) {
    if (std::find(names.begin(), names.end(), sample.gpu) == names.end()) {
      names.push_back(sample.gpu);
    }
  }
  return names;
}

/// The one GPU type of the samples, or that of --gpu; drops the samples of others.
Checked<GpuSpec> choose_gpu(const Arguments& arguments, std::vector<Sample>& samples) {
  const std::vector<std::string> names = gpu_names(samples);
  if (arguments.gpu.empty() && names.size() > 1) {
    return mistake("the samples are of several GPUs: " + joined_by(", ", names),
                   "--gpu NAME chooses one");
  }
  const std::string name = arguments.gpu.empty() ? names.front() : arguments.gpu;
  Checked<GpuSpec> gpu = find_gpu(name);
  if (!gpu.ok()) return gpu;
  std::vector<std::string> own;
  for (const std::string& other : names) {
    // A sample that names no GPU is taken for one of --gpu.
    if (other.empty() || slug_of(other) == gpu.value().slug) own.push_back(other);
  }
  std::erase_if(samples, [&own](const Sample& sample) {
    return std::find(own.begin(), own.end(), sample.gpu) == own.end();
  });
  if (!samples.empty()) return gpu;
  return mistake("no sample is of " + gpu.value().name,
                 "a sample's GPU is known by the aliases of `memest gpus`");
}

/// Measured where memest took them all, as those of an interrupted run are.
Provenance provenance_of(const std::vector<Sample>& samples) {
  const bool own = std::all_of(samples.begin(), samples.end(), [](const Sample& sample) {
    return sample.source == kMeasuredSource;
  });
  return own ? Provenance::measured : Provenance::public_;
}

}  // namespace

Outcome run_calibrate(const Arguments& arguments, const Surroundings& surroundings) {
  if (arguments.from.empty()) return run_measurement(arguments, surroundings);
  const Checked<std::vector<Sample>> read = read_all(arguments);
  if (!read.ok()) return refused(read.diagnostics());
  std::vector<Sample> samples = read.value();
  const Checked<GpuSpec> gpu = choose_gpu(arguments, samples);
  if (!gpu.ok()) return refused(gpu.diagnostics());
  Diagnostics warnings = read.diagnostics();
  append(drop_impossible(gpu.value(), samples), warnings);
  if (samples.empty()) {
    warnings.push_back(mistake("no sample is left", "are its seconds in seconds?"));
    return refused(std::move(warnings));
  }
  FitSettings settings;
  settings.provenance = provenance_of(samples);
  settings.judge = arguments.all_rows ? JudgeBy::other_samples : JudgeBy::fitted_samples;
  if (arguments.dry_run) {
    return {ExitCode::yes, write_samples(choose_samples(gpu.value(), samples, settings)),
            std::move(warnings)};
  }
  ProfileFit fit = fit_profile(gpu.value(), samples, settings);
  fit.profile.origin.date = today();
  Outcome outcome{ExitCode::yes, write_profile(fit.profile), std::move(warnings)};
  if (arguments.output.ends_with(kProfileSuffix)) {
    const std::string stem =
        arguments.output.substr(0, arguments.output.size() - kProfileSuffix.size());
    outcome.files.push_back({stem + ".samples.csv", write_samples(fit.fitted)});
  }
  return outcome;
}

}  // namespace memest
