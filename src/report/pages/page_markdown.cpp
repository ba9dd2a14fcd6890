#include <string_view>

#include "memest/report/display.hpp"
#include "memest/report/page.hpp"

namespace memest {
namespace {

/// Text whose signs mean themselves in markdown.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char sign : printable(text, {})) {
    if (std::string_view("\\*<|`").find(sign) != std::string_view::npos) result += '\\';
    result += sign;
  }
  return result;
}

void append_cells(std::string& out, const std::vector<std::string>& cells, std::size_t columns) {
  out += '|';
  for (std::size_t i = 0; i < columns; ++i) {
    out += ' ' + (i < cells.size() ? cells[i] : std::string()) + " |";
  }
  out += '\n';
}

void append(std::string& out, const Table& table) {
  std::vector<std::string> titles;
  std::vector<std::string> rules;
  for (const Column& column : table.columns) {
    titles.push_back(escaped(column.title));
    // GitHub Flavored Markdown: a colon behind the dashes aligns the column right.
    rules.emplace_back(column.align == Align::left ? "---" : "---:");
  }
  append_cells(out, titles, table.columns.size());
  append_cells(out, rules, table.columns.size());
  for (const Row& row : table.rows) {
    std::vector<std::string> cells;
    for (const std::string& cell : row.cells) cells.push_back(escaped(cell));
    if (!row.marker.empty() && !cells.empty()) cells[0] = row.marker + ' ' + cells[0];
    append_cells(out, cells, table.columns.size());
  }
}

void append(std::string& out, const Paragraph& paragraph) {
  const std::string text = escaped(paragraph.text);
  out += paragraph.tone == Tone::strong ? "**" + text + "**\n" : text + '\n';
}

void append(std::string& out, const Heading& heading) {
  out += "## " + escaped(heading.text) + '\n';
}

void append(std::string& out, const Figure& figure) {
  out += "```\n";
  for (const std::string& line : figure.draw(kTextColumns)) out += printable(line, {}) + '\n';
  out += "```\n";
}

void append(std::string&, const Chart&) {}

}  // namespace

std::string markdown_of(const Page& page) {
  std::string out;
  for (const Part& part : page.parts) {
    if (std::holds_alternative<Chart>(part)) continue;
    if (!out.empty()) out += '\n';
    std::visit([&](const auto& shown) { append(out, shown); }, part);
  }
  return out;
}

}  // namespace memest
