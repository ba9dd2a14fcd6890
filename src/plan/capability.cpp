#include <charconv>
#include <string_view>

#include "memest/plan/estimate.hpp"

namespace memest {
namespace {

constexpr Capability kAssumed{.value = 80, .assumed = true};

}  // namespace

Capability capability_of(const GpuSpec& gpu) {
  const std::string_view text = gpu.compute_capability;
  const std::size_t point = text.find('.');
  if (point == std::string_view::npos) return kAssumed;
  int major = 0;
  int minor = 0;
  const char* const begin = text.data();
  const char* const dot = begin + point;
  const char* const end = begin + text.size();
  const auto whole = std::from_chars(begin, dot, major);
  const auto tenth = std::from_chars(dot + 1, end, minor);
  if (whole.ec != std::errc() || whole.ptr != dot || tenth.ec != std::errc() || tenth.ptr != end) {
    return kAssumed;
  }
  return {.value = major * 10 + minor, .assumed = false};
}

}  // namespace memest
