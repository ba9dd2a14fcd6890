#include <string_view>

#include "memest/report/page.hpp"

namespace memest {
namespace {

std::string field(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string result = "\"";
  for (const char sign : text) {
    if (sign == '"') result += '"';
    result += sign;
  }
  return result + '"';
}

}  // namespace

std::string csv_of(const Table& table) {
  std::string out;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    out += (i > 0 ? "," : "") + field(table.columns[i].title);
  }
  out += '\n';
  for (const Row& row : table.rows) {
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      out += (i > 0 ? "," : "") + (i < row.cells.size() ? field(row.cells[i]) : std::string());
    }
    out += '\n';
  }
  return out;
}

}  // namespace memest
