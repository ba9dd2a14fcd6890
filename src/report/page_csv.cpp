#include <string_view>
#include <vector>

#include "csv.hpp"
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

void append_csv_line(std::string& out, std::span<const std::string> cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) out += ',';
    out += field(cells[i]);
  }
  out += '\n';
}

std::string csv_of(const Table& table) {
  std::string out;
  std::vector<std::string> cells;
  for (const Column& column : table.columns) cells.push_back(column.title);
  append_csv_line(out, cells);
  for (const Row& row : table.rows) {
    cells = row.cells;
    cells.resize(table.columns.size());
    append_csv_line(out, cells);
  }
  return out;
}

}  // namespace memest
