// The phase of a recorded moment, in words.
#pragma once

#include <string>
#include <string_view>

namespace memest {

/// "step2.backward" as people say it.
inline std::string phase_text(const std::string& phase) {
  constexpr std::string_view kStep = "step";
  const std::size_t dot = phase.find('.');
  if (!phase.starts_with(kStep) || dot == std::string::npos) return "before the first step";
  const std::string step = phase.substr(kStep.size(), dot - kStep.size());
  const std::string name = phase.substr(dot + 1);
  if (name == "unfinished") return "in step " + step + ", which did not end";
  return "in the " + name + " of step " + step;
}

}  // namespace memest
