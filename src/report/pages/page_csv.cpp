#include <string_view>
#include <vector>

#include "memest/report/display.hpp"
#include "memest/report/page.hpp"
#include "report/pages/csv.hpp"

namespace memest {
namespace {

/// Whether a spreadsheet would take the cell for a formula: a number with its sign is none.
bool is_formula(std::string_view text) {
  if (text.empty()) return false;
  if (text.front() == '=' || text.front() == '@') return true;
  // "-12.5" is a number and "+A1" is none; "-1|name" would be evaluated too.
  if (text.front() != '+' && text.front() != '-') return false;
  const bool number = text.size() > 1 && text[1] >= '0' && text[1] <= '9';
  return !number || text.find_first_of("|!('\"=") != std::string_view::npos;
}

std::string field(std::string_view written) {
  std::string text = printable(written, {});
  // OWASP, CSV injection: what begins with an apostrophe is read as text.
  if (is_formula(text)) text.insert(text.begin(), '\'');
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string result = "\"";
  for (const char sign : text) {
    // RFC 4180: a quote within quotes is written twice.
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
