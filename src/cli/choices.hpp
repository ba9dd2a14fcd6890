// The flags whose value is one of a few words: what each may be. The parser takes these words and
// no others, the help page, the manual and the completions list them.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.hpp"

namespace memest {

inline constexpr std::array kObjectives{Objective::money, Objective::time, Objective::memory,
                                        Objective::gpus};
inline constexpr std::array kGrowths{Growth::micro_batch, Growth::sequence, Growth::model};
inline constexpr std::array kLoads{Load::burst, Load::sustained};
inline constexpr std::array kDeviceKinds{DeviceKind::gpu, DeviceKind::host};
inline constexpr std::array kColorTimes{ColorWhen::automatic, ColorWhen::always, ColorWhen::never};
/// The one word of --rows.
inline constexpr std::string_view kAllRows = "all";

/// The value of `all` that is called `word`.
template <class Enum, std::size_t Count>
std::optional<Enum> named(std::string_view word, const std::array<Enum, Count>& all) {
  for (const Enum value : all) {
    if (name_of(value) == word) return value;
  }
  return std::nullopt;
}

/// Their names, in order.
template <class Enum, std::size_t Count>
std::vector<std::string> choice_names(const std::array<Enum, Count>& all) {
  std::vector<std::string> names;
  for (const Enum value : all) names.emplace_back(name_of(value));
  return names;
}

}  // namespace memest
