// One line of RFC 4180 CSV.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace memest {

/// Appends the cells, quoted where they must be, and a newline.
void append_csv_line(std::string& out, std::span<const std::string> cells);

}  // namespace memest
