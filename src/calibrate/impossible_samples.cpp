#include "memest/calibrate/impossible_samples.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <variant>

#include "memest/time/kernel_law.hpp"

namespace memest {
namespace {

/// Largest share of the datasheet's peak: consumer GPUs boost beyond its clock, RTX 5090
/// with constant data to 1.21 (docs/calibration.md).
constexpr double kMostOfPeak = 1.25;
/// Warnings about single samples; the rest is counted.
constexpr std::size_t kMostWarnings = 10;

/// Share of its operands' peak that the call reaches; 0 where the peak is not known.
double share_of_peak(const GpuSpec& gpu, const Sample& sample) {
  const auto share = [&sample](const auto& shape, const std::optional<Machine>& machine) {
    return machine ? flops_of(shape) / sample.seconds.value() / machine->flops_per_second : 0;
  };
  if (const auto* product = std::get_if<MatmulShape>(&sample.shape)) {
    return share(*product, machine_of(gpu, product->operand, product->tensor_float));
  }
  if (const auto* attention = std::get_if<AttentionShape>(&sample.shape)) {
    return share(*attention, machine_of(gpu, attention->dtype));
  }
  return 0;
}

std::string times_text(double times) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), times,
                                 std::chars_format::general, 3);
  return std::string(digits.data(), end.ptr);
}

Diagnostic warning(std::string message) {
  return {Severity::warning, {}, std::move(message), "", false};
}

}  // namespace

Diagnostics drop_impossible(const GpuSpec& gpu, std::vector<Sample>& samples) {
  Diagnostics warnings;
  std::size_t more = 0;
  std::erase_if(samples, [&](const Sample& sample) {
    const double share = share_of_peak(gpu, sample);
    // Published tables have such rows: aiconfigurator's attention of H200 in vllm 0.19.0 reaches
    // 257,095 TFLOP/s.
    if (share <= kMostOfPeak) return false;
    if (warnings.size() == kMostWarnings) {
      ++more;
    } else {
      const std::string place =
          sample.file.empty() ? "" : sample.file + ":" + std::to_string(sample.line) + ": ";
      warnings.push_back(warning(place + "this time would take " + times_text(share) +
                                 " times the peak of " + gpu.name + "; the row is passed over"));
    }
    return true;
  });
  if (more > 0) {
    warnings.push_back(warning(std::to_string(more) + " more rows beyond the peak of " + gpu.name +
                               " are passed over"));
  }
  return warnings;
}

}  // namespace memest
