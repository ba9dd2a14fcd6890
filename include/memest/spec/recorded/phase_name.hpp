// The name of a phase of a recorded program, as its marker has it: "step2.backward".
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace memest {

struct PhaseName {
  std::string_view step;   ///< "step2"
  std::string_view phase;  ///< "backward"; "unfinished" behind the last phase that ended
};

/// Nothing where a marker is no phase of a step.
inline std::optional<PhaseName> split_phase(std::string_view marker) {
  const std::size_t dot = marker.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  return PhaseName{marker.substr(0, dot), marker.substr(dot + 1)};
}

}  // namespace memest
