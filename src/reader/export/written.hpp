// Values of keys as a spec has them.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace memest {

inline constexpr std::string_view kNoneWord = "none";

inline std::string written_as(std::string_view word) { return std::string(word); }
inline std::string written_as(std::int64_t number) { return std::to_string(number); }
/// No pointer: a literal is a word.
template <std::same_as<bool> Flag>
std::string written_as(Flag flag) {
  return flag ? "true" : "false";
}

/// "[a, b]"
inline std::string list(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return "[" + all + "]";
}

}  // namespace memest
