// Lines of a step's work with formulas in brackets in the place of numbers: "w g 0 0 7 14 14 tn
// 4096 (batch*seq) 4096 1".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memest/spec/recorded/varied_work.hpp"

namespace memest {

/// The work in the lines of a family.
std::string varied_work_text(const VariedWork& work, const std::vector<std::string>& names);

/// Adds a line that begins with `w`; false where it is no such line of the names.
bool add_varied_line(std::string_view line, const std::vector<std::string>& names,
                     VariedWork& work);

}  // namespace memest
