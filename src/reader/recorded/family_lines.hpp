// Lines that a recorded family has and a trace has not.
#pragma once

#include <string>
#include <string_view>

namespace memest {

inline constexpr std::string_view kFamilyLine = "# allocator trace family 1";
inline constexpr std::string_view kVariedKey = "varied";
inline constexpr std::string_view kRecordedKey = "recorded";
inline constexpr std::string_view kHeldOutKey = "held out";
inline constexpr std::string_view kWorkKey = "work";
inline constexpr std::string_view kNoWorkKey = "no work";

inline std::string family_head(std::string_view key, const std::string& value) {
  return "# " + std::string(key) + ": " + value;
}

}  // namespace memest
