// Conditions of shell scripts that compare two words.
#pragma once

#include <optional>
#include <vector>

#include "reader/foreign/shell_script.hpp"

namespace memest {

/// The answer of `[ A = B ]`, `[[ A == B ]]`, `-eq`, `-z` and the like, with `!` before it; nothing
/// where it asks what no file tells.
std::optional<bool> judge_condition(const std::vector<ExpandedWord>& words);

}  // namespace memest
