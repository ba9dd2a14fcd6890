// One line of RFC 4180 CSV.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace memest {

/// Appends the cells and a newline: each made printable, quoted where it must be, and behind an
/// apostrophe where a spreadsheet would run it as a formula.
void append_csv_line(std::string& out, std::span<const std::string> cells);

}  // namespace memest
