#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>

#include "memest/diag/expect.hpp"
#include "memest/report/color.hpp"
#include "memest/report/display.hpp"
#include "memest/report/page.hpp"

namespace memest {
namespace {

constexpr std::size_t kWideGap = 2;
constexpr std::size_t kNarrowGap = 1;
constexpr std::size_t kIndent = 2;  // of a table; a marker stands in it

std::string toned(std::string_view text, Tone tone, const RenderOptions& options) {
  switch (tone) {
    case Tone::plain:
      return std::string(text);
    case Tone::strong:
      return painted(text, Paint::bold, options);
    case Tone::faint:
      return painted(text, Paint::dim, options);
    case Tone::good:
      return painted(text, Paint::green, options);
    case Tone::bad:
      return painted(text, Paint::red, options);
    case Tone::uncertain:
      return painted(text, Paint::yellow, options);
  }
  unreachable("a tone beyond the enum");
}

std::string without_trailing_spaces(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

/// Widths of a table's columns and of the gap between them, so that a row fits.
struct Layout {
  std::vector<std::size_t> widths;
  std::size_t gap = kWideGap;
  std::size_t indent = kIndent;

  [[nodiscard]] std::size_t total() const {
    return std::accumulate(widths.begin(), widths.end(), indent) + gap * (widths.size() - 1);
  }
  /// Where column `index` begins.
  [[nodiscard]] std::size_t begin_of(std::size_t index) const {
    return std::accumulate(widths.begin(), widths.begin() + static_cast<std::ptrdiff_t>(index),
                           indent + gap * index);
  }
};

Layout layout_of(const Table& table, const RenderOptions& options) {
  Layout layout;
  for (const Column& column : table.columns) layout.widths.push_back(display_width(column.title));
  for (const Row& row : table.rows) {
    if (!row.marker.empty()) layout.indent = kIndent + 1;
    const bool spans = row.cells.size() < table.columns.size();
    for (std::size_t i = 0; i + (spans ? 1 : 0) < row.cells.size(); ++i) {
      layout.widths[i] = std::max(layout.widths[i], display_width(row.cells[i]));
    }
  }
  if (layout.total() > options.columns) layout.gap = kNarrowGap;
  while (layout.total() > options.columns) {
    --*std::max_element(layout.widths.begin(), layout.widths.end());
  }
  return layout;
}

std::string padded(std::string_view text, std::size_t width, Align align) {
  return align == Align::left ? padded_right(text, width) : padded_left(text, width);
}

/// A cell in lines; the spaces that it begins with begin every line.
std::vector<std::string> cell_lines(std::string_view text, std::size_t width) {
  const std::size_t indent = std::min(text.find_first_not_of(' '), text.size());
  if (indent >= width) return {std::string(text)};
  std::vector<std::string> lines = lines_of(text.substr(indent), {width - indent, 0, true});
  for (std::string& line : lines) line.insert(0, indent, ' ');
  return lines;
}

/// One row, in as many lines as its tallest cell needs.
void append_row(std::string& out, const Table& table, const Layout& layout, const Row& row,
                const RenderOptions& options) {
  std::vector<std::vector<std::string>> cells;
  std::vector<std::size_t> widths;
  std::size_t height = 1;
  for (std::size_t i = 0; i < row.cells.size(); ++i) {
    const bool spans = i + 1 == row.cells.size() && i + 1 < table.columns.size();
    widths.push_back(spans ? options.columns - layout.begin_of(i) : layout.widths[i]);
    cells.push_back(cell_lines(row.cells[i], widths[i]));
    height = std::max(height, cells[i].size());
  }
  for (std::size_t line = 0; line < height; ++line) {
    std::string text = line == 0 && !row.marker.empty() ? " " + row.marker : "";
    text = padded_right(text, layout.indent);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) text += std::string(layout.gap, ' ');
      const bool spans = i + 1 == cells.size() && cells.size() < table.columns.size();
      text += padded(line < cells[i].size() ? cells[i][line] : "", widths[i],
                     spans ? Align::left : table.columns[i].align);
    }
    out += toned(without_trailing_spaces(text), row.tone, options) + '\n';
  }
}

/// The table with every text printable as `options` asks.
Table printable_table(Table table, const RenderOptions& options) {
  for (Column& column : table.columns) column.title = printable(column.title, options);
  for (Row& row : table.rows) {
    row.marker = printable(row.marker, options);
    for (std::string& cell : row.cells) cell = printable(cell, options);
  }
  return table;
}

void append(std::string& out, const Table& as_given, const RenderOptions& options) {
  const Table table = printable_table(as_given, options);
  const Layout layout = layout_of(table, options);
  Row titles;
  titles.tone = Tone::faint;
  for (const Column& column : table.columns) titles.cells.push_back(column.title);
  const bool titled = std::any_of(titles.cells.begin(), titles.cells.end(),
                                  [](const std::string& title) { return !title.empty(); });
  if (titled) append_row(out, table, layout, titles, options);
  for (const Row& row : table.rows) append_row(out, table, layout, row, options);
}

void append(std::string& out, const Paragraph& paragraph, const RenderOptions& options) {
  const std::string text = printable(paragraph.text, options);
  for (const std::string& line : lines_of(text, {options.columns, 0, true})) {
    out += toned(line, paragraph.tone, options) + '\n';
  }
}

void append(std::string& out, const Heading& heading, const RenderOptions& options) {
  append(out, Paragraph{heading.text, Tone::strong}, options);
}

void append(std::string& out, const Figure& figure, const RenderOptions& options) {
  for (const std::string& line : figure.lines) {
    out += without_trailing_spaces(printable(line, options)) + '\n';
  }
}

}  // namespace

std::string text_of(const Page& page, const RenderOptions& options) {
  std::string out;
  bool after_heading = true;
  for (const Part& part : page.parts) {
    if (!after_heading) out += '\n';
    std::visit([&](const auto& shown) { append(out, shown, options); }, part);
    after_heading = std::holds_alternative<Heading>(part);
  }
  return out;
}

}  // namespace memest
