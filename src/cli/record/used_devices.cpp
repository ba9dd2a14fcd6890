#include "cli/record/used_devices.hpp"

#include <charconv>
#include <string>

namespace memest {
namespace {

std::string process_of_trace(const std::filesystem::path& trace) {
  return trace.stem().stem().string();
}

/// 1 of "4711.1.trace"; 0 where the name has no device.
std::int64_t device_of_trace(const std::filesystem::path& trace) {
  const std::string text = trace.stem().extension().string();
  std::int64_t device = 0;
  if (!text.empty()) std::from_chars(text.data() + 1, text.data() + text.size(), device);
  return device;
}

}  // namespace

void name_devices(const std::vector<std::filesystem::path>& traces,
                  std::vector<ProcessRun>& processes) {
  for (std::size_t begin = 0; begin < traces.size();) {
    const std::string process = process_of_trace(traces[begin]);
    std::size_t end = begin;
    while (end < traces.size() && process_of_trace(traces[end]) == process) ++end;
    for (std::size_t i = begin; end - begin > 1 && i < end; ++i) {
      processes[i].device = {device_of_trace(traces[i]), static_cast<std::int64_t>(i - begin + 1),
                             static_cast<std::int64_t>(end - begin)};
    }
    begin = end;
  }
}

}  // namespace memest
