// Diagnostics told beside the samples of a sweep.
#include <algorithm>
#include <cmath>
#include <string>
#include <variant>

#include "memest/calibrate/measure_sweep.hpp"
#include "memest/kernels/traffic.hpp"
#include "memest/time/kernel_law.hpp"
#include "memest/units/text.hpp"

namespace memest {
namespace {

/// A desktop's own windows stay below.
constexpr double kBusyShare = 0.05;
constexpr std::size_t kMostNames = 3;

Diagnostic warning(std::string message, std::string hint) {
  return {Severity::warning, {}, std::move(message), std::move(hint), false};
}

std::string percent(double share) { return std::to_string(std::llround(share * 100)) + " %"; }

std::string counted(std::size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string named(const std::vector<KernelShape>& shapes) {
  std::string names;
  for (std::size_t i = 0; i < std::min(shapes.size(), kMostNames); ++i) {
    names += (i == 0 ? "" : ", ") + text_of(shapes[i]);
  }
  return shapes.size() > kMostNames ? names + ", ..." : names;
}

/// Whether the sample is shorter than the GPU could compute it at the clock that was seen, or at
/// the datasheet's.
bool is_impossible(const Sample& sample, const GpuSpec& gpu) {
  const auto* shape = std::get_if<MatmulShape>(&sample.shape);
  if (shape == nullptr) return false;
  const auto machine = machine_of(gpu, shape->operand, shape->tensor_float);
  if (!machine) return false;
  constexpr double kMega = 1e6;
  // A datasheet's peak is of its boost clock: at 1,200 of 1,980 MHz 61 % of it are the most.
  const bool clocks = sample.clock_mhz > 0 && gpu.boost_clock.has_value();
  const double clock = clocks ? sample.clock_mhz * kMega / gpu.boost_clock->value.value() : 1;
  return flops_of(*shape) / sample.seconds.value() > machine->flops_per_second * clock;
}

void warn_of_end(const MeasureResult& result, Diagnostics& warnings) {
  const std::string left = counted(result.steps_left, "shape");
  switch (result.end) {
    case MeasureEnd::finished:
      return;
    case MeasureEnd::out_of_time:
      warnings.push_back(
          warning("the time was up before " + left + " of the sweep", "--seconds N gives it more"));
      return;
    case MeasureEnd::interrupted:
      warnings.push_back(warning("interrupted before " + left + " of the sweep",
                                 "the same command goes on from there"));
      return;
  }
}

}  // namespace

Diagnostics warnings_of(const Sweep& sweep, const SweepDevice& device,
                        const MeasureResult& result) {
  Diagnostics warnings;
  if (device.facts.busy_share > kBusyShare) {
    warnings.push_back(warning("others kept the device busy for " +
                                   percent(device.facts.busy_share) +
                                   " of the time before it was measured: times may be too long",
                               "measure again when nothing else runs on it"));
  }
  if (!sweep.left_out.empty()) {
    warnings.push_back(warning(
        counted(sweep.left_out.size(), "shape") + " did not fit into the free memory (" +
            binary_text(device.facts.free_memory) + " of " + binary_text(device.facts.memory) +
            ") and had to be left out: " + named(sweep.left_out),
        "measure again when others have freed theirs"));
  }
  if (!result.wrong.empty()) {
    warnings.push_back(warning(counted(result.wrong.size(), "shape") + " had to be left out, as " +
                                   result.difference + ": " + named(result.wrong),
                               "is the GPU sound, and its library released for it?"));
  }
  const auto throttled = static_cast<std::size_t>(std::count_if(
      result.samples.begin(), result.samples.end(),
      [](const Sample& sample) { return sample.load == Load::burst && sample.throttled; }));
  if (throttled > 0) {
    warnings.push_back(warning(
        "the clock fell under nine tenths of its highest during " + counted(throttled, "shape") +
            " of " + std::to_string(result.samples.size()) + ", whose slow samples were dropped",
        "a GPU that throttles in bursts is hot, or its power is limited"));
  }
  std::vector<KernelShape> impossible;
  for (const Sample& sample : result.samples) {
    if (is_impossible(sample, device.gpu)) impossible.push_back(sample.shape);
  }
  if (!impossible.empty()) {
    warnings.push_back(warning(counted(impossible.size(), "shape") + " ran faster than " +
                                   device.gpu.name + " can compute: " + named(impossible),
                               "is the device that GPU? --gpu NAME says which"));
  }
  warn_of_end(result, warnings);
  return warnings;
}

Diagnostics missing_laws(const GpuProfile& profile, const GpuSpec& gpu,
                         const std::vector<Sample>& samples) {
  std::vector<KernelShape> without;
  for (const Sample& sample : samples) {
    if (!predict(profile, gpu, sample.shape, sample.load)) without.push_back(sample.shape);
  }
  if (without.empty()) return {};
  return {warning(counted(without.size(), "shape") +
                      " of kinds with fewer than three samples made no law: " + named(without),
                  "--seconds N measures more of them")};
}

}  // namespace memest
