// The phase of a recorded moment, in words.
#pragma once

#include <string>
#include <string_view>

#include "memest/spec/recorded/phase_name.hpp"

namespace memest {

/// "step2.backward" as people say it.
inline std::string phase_text(const std::string& phase) {
  constexpr std::string_view kStep = "step";
  const auto split = split_phase(phase);
  if (!split || !split->step.starts_with(kStep)) return "before the first step";
  const std::string step(split->step.substr(kStep.size()));
  const std::string name(split->phase);
  if (name == "unfinished") return "in step " + step + ", which did not end";
  return "in the " + name + " of step " + step;
}

}  // namespace memest
