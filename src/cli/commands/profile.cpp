#include "memest/reader/profile.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "cli/spec.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/samples.hpp"
#include "memest/report/gpus/profile_report.hpp"
#include "memest/time/kernel_law.hpp"

namespace memest {
namespace {

/// A profile by the name of its GPU, or from a file.
Checked<GpuProfile> read_named(const std::string& name) {
  if (name.find('/') != std::string::npos || name.ends_with(".yaml")) {
    return read_profile_file(name);
  }
  const Checked<GpuSpec> gpu = find_gpu(name);
  if (!gpu.ok()) return gpu.diagnostics();
  if (auto profile = find_profile(gpu.value().slug)) return *std::move(profile);
  return Diagnostic{Severity::error,
                    {},
                    "memest has no profile of " + gpu.value().name,
                    "`memest calibrate` makes one",
                    false};
}

std::string seconds_cell(const std::optional<Seconds>& seconds) {
  if (!seconds) return "";
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), seconds->value(),
                                 std::chars_format::general, 6);
  return std::string(digits.data(), end.ptr);
}

/// Every sample of a file beside what the profile says of it.
struct ComparedSamples {
  std::vector<PredictedSample> samples;
  std::string csv;
  Diagnostics warnings;
};

/// Samples of other GPUs, by the names that they give them.
Diagnostics strangers_among(const std::vector<PredictedSample>& samples, const GpuSpec& gpu) {
  std::map<std::string, std::size_t> counts;
  for (const PredictedSample& sample : samples) ++counts[sample.sample.gpu];
  std::size_t strangers = 0;
  std::string names;
  for (const auto& [name, count] : counts) {
    if (name == gpu.slug) continue;
    const Checked<GpuSpec> other = find_gpu(name);
    if (!other.ok() || other.value().slug == gpu.slug) continue;
    strangers += count;
    names += (names.empty() ? "" : ", ") + name;
  }
  if (strangers == 0) return {};
  return {{Severity::warning,
           {},
           std::to_string(strangers) + " of " + std::to_string(samples.size()) +
               " samples are of other GPUs than " + gpu.name + ": " + names,
           "its laws are held to them all the same",
           false}};
}

Checked<ComparedSamples> compare(const GpuProfile& profile, const GpuSpec& gpu,
                                 const std::string& path) {
  const Checked<SampleTable> table = read_sample_rows(path);
  if (!table.ok()) return table.diagnostics();
  ComparedSamples comparison;
  comparison.csv = table.value().head + ",predicted_seconds\n";
  for (const SampleRow& row : table.value().rows) {
    std::optional<Seconds> predicted;
    if (row.sample) {
      predicted = predict(profile, gpu, row.sample->shape, row.sample->load);
      comparison.samples.push_back({*row.sample, predicted});
    }
    comparison.csv += row.line + "," + seconds_cell(predicted) + "\n";
  }
  comparison.warnings = table.diagnostics();
  for (Diagnostic& strange : strangers_among(comparison.samples, gpu)) {
    comparison.warnings.push_back(std::move(strange));
  }
  return comparison;
}

}  // namespace

Outcome run_profile(const Arguments& arguments, const Surroundings& surroundings) {
  if (!arguments.csv.empty() && arguments.against.empty()) {
    return refused({{Severity::error,
                     {},
                     "--csv writes samples beside what the profile says of them",
                     "--against FILE names them",
                     false}});
  }
  const Checked<GpuProfile> profile = read_named(arguments.words[0]);
  if (!profile.ok()) return refused(profile.diagnostics());
  const Checked<GpuSpec> gpu = gpu_of_profile(profile.value());
  if (!gpu.ok()) {
    Diagnostics mistakes = gpu.diagnostics();
    for (Diagnostic& mistake : mistakes) {
      mistake.message =
          "'" + arguments.words[0] + "' is of no GPU that memest knows: " + mistake.message;
    }
    return refused(std::move(mistakes));
  }
  ComparedSamples comparison;
  if (!arguments.against.empty()) {
    Checked<ComparedSamples> compared = compare(profile.value(), gpu.value(), arguments.against);
    if (!compared.ok()) return refused(compared.diagnostics());
    comparison = std::move(compared).value();
  }
  const Report report = report_profile(profile.value(), gpu.value(), comparison.samples,
                                       question_of(arguments, arguments.words, surroundings));
  Outcome outcome{ExitCode::yes, formatted(report, arguments.format, surroundings.out),
                  std::move(comparison.warnings)};
  if (!arguments.csv.empty()) {
    outcome.files.push_back({arguments.csv, std::move(comparison.csv)});
  }
  return outcome;
}

}  // namespace memest
