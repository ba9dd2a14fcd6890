#include <charconv>
#include <memory>
#include <optional>
#include <string_view>

#include "memest/plan/estimate.hpp"

namespace memest {
namespace {

constexpr Capability kAssumed{.value = 80, .assumed = true};

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const char* const end = std::to_address(text.end());
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

}  // namespace

Capability capability_of(const GpuSpec& gpu) {
  const std::string_view text = gpu.compute_capability;
  const std::size_t point = text.find('.');
  if (point == std::string_view::npos) return kAssumed;
  const std::optional<int> major = whole_number(text.substr(0, point));
  const std::optional<int> minor = whole_number(text.substr(point + 1));
  if (!major || !minor) return kAssumed;
  return {.value = *major * 10 + *minor, .assumed = false};
}

LoweringPolicy policy_of(const Job& job) {
  const GpuSpec& gpu = job.hardware.gpu;
  const int capability = capability_of(gpu).value;
  const std::int64_t multiprocessors = gpu.multiprocessors ? gpu.multiprocessors->value : 0;
  return job.training ? policy_of(*job.training, capability, multiprocessors)
                      : policy_of(*job.inference, capability, multiprocessors);
}

}  // namespace memest
