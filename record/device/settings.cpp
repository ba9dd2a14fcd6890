#include "device/settings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace memest::record {
namespace {

constexpr std::size_t kKiB = 1024;

constexpr auto kLimits = std::to_array<SmLimits>({
    {7, 0, 2048, 32, 96 * kKiB, 96 * kKiB},
    {7, 5, 1024, 16, 64 * kKiB, 64 * kKiB},
    {8, 0, 2048, 32, 164 * kKiB, 163 * kKiB},
    {8, 6, 1536, 16, 100 * kKiB, 99 * kKiB},
    {8, 7, 1536, 16, 164 * kKiB, 163 * kKiB},
    {8, 9, 1536, 24, 100 * kKiB, 99 * kKiB},
    {9, 0, 2048, 32, 228 * kKiB, 227 * kKiB},
    {10, 0, 2048, 32, 228 * kKiB, 227 * kKiB},
    {12, 0, 1536, 24, 100 * kKiB, 99 * kKiB},
});

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// `memest record` writes whole numbers; another text leaves the default.
template <class Number>
void read(const char* name, Number& number) {
  const std::string_view text = variable(name);
  Number value{};
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc()) {
    number = value;
  }
}

void read(const char* name, bool& flag) {
  if (const std::string_view text = variable(name); !text.empty()) flag = text != "0";
}

/// torchrun gives each of its processes a GPU; CUDA_VISIBLE_DEVICES hides the others.
int visible_devices(int devices) {
  read("LOCAL_WORLD_SIZE", devices);
  if (std::getenv("CUDA_VISIBLE_DEVICES") == nullptr) return devices;
  const std::string_view listed = variable("CUDA_VISIBLE_DEVICES");
  if (listed.empty() || listed.starts_with('-')) return 0;
  return static_cast<int>(std::ranges::count(listed, ',')) + 1;
}

Settings read_settings() {
  Settings settings;
  settings.journal = variable("MEMEST_RECORD_JOURNAL");
  settings.recording = !settings.journal.empty();
  settings.name = variable("MEMEST_RECORD_NAME");
  read("MEMEST_RECORD_DEVICES", settings.devices);
  settings.devices = visible_devices(settings.devices);
  read("MEMEST_RECORD_CAPABILITY_MAJOR", settings.major);
  read("MEMEST_RECORD_CAPABILITY_MINOR", settings.minor);
  read("MEMEST_RECORD_SMS", settings.sms);
  read("MEMEST_RECORD_MEMORY", settings.memory);
  read("MEMEST_RECORD_CONTEXT", settings.context);
  read("MEMEST_RECORD_L2", settings.l2);
  read("MEMEST_RECORD_STRICT", settings.strict);
  read("MEMEST_RECORD_MASKS_KEEP_ALL", settings.masks_keep_all);
  return settings;
}

}  // namespace

const SmLimits& limits_of(int major, int minor) {
  const SmLimits* best = kLimits.data();
  for (const SmLimits& row : kLimits) {
    if (row.major < major || (row.major == major && row.minor <= minor)) best = &row;
  }
  return *best;
}

const Settings& settings() {
  static const Settings read = read_settings();
  return read;
}

}  // namespace memest::record
