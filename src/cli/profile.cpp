#include "memest/reader/profile.hpp"

#include <array>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "command.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/samples.hpp"
#include "memest/report/profile_report.hpp"
#include "memest/time/kernel_law.hpp"
#include "spec.hpp"

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

}  // namespace

Outcome run_profile(const Arguments& arguments, const Surroundings& surroundings) {
  const Checked<GpuProfile> profile = read_named(arguments.words[0]);
  if (!profile.ok()) return refused(profile.diagnostics());
  const Checked<GpuSpec> gpu = gpu_of_profile(profile.value());
  if (!gpu.ok()) return refused(gpu.diagnostics());
  std::vector<PredictedSample> samples;
  std::string csv;
  Diagnostics warnings;
  if (!arguments.against.empty()) {
    const Checked<SampleTable> table = read_samples(arguments.against);
    if (!table.ok()) return refused(table.diagnostics());
    warnings = table.diagnostics();
    csv = table.value().head + ",predicted_seconds\n";
    for (const SampleRow& row : table.value().rows) {
      std::optional<Seconds> predicted;
      if (row.sample) {
        predicted = predict(profile.value(), gpu.value(), row.sample->shape, row.sample->load);
        samples.push_back({*row.sample, predicted});
      }
      csv += row.line + "," + seconds_cell(predicted) + "\n";
    }
  }
  const Report report = report_profile(profile.value(), gpu.value(), samples,
                                       question_of(arguments, arguments.words, surroundings));
  Outcome outcome{ExitCode::yes, formatted(report, arguments.format, surroundings.out),
                  std::move(warnings)};
  if (!arguments.csv.empty()) outcome.files.push_back({arguments.csv, std::move(csv)});
  return outcome;
}

}  // namespace memest
