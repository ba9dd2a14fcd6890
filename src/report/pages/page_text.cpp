#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
struct ColumnLayout {
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

/// Columns that a narrow screen misses least, those first.
constexpr std::array<std::string_view, 19> kMissedLeast = {
    "formula",  "bytes",  "source",    "page-locked", "date", "what it counts", "FLOP/B",
    "bound by", "MFU",    "tokens/s",  "of GiB",      "peak", "micro",          "reserved, GiB",
    "seconds",  "active", "recompute", "layout",      "ZeRO"};

/// Columns at least shown of a cell that may be cut.
constexpr std::size_t kCutColumns = 24;

/// A first column up to this width names the rows and is not broken into lines.
constexpr std::size_t kNameColumns = 30;

/// Columns of the longest piece that a line cannot be broken within: a word, or a part of a formula
/// up to a sign.
std::size_t longest_piece(std::string_view text) {
  std::size_t longest = 0;
  while (!text.empty()) {
    std::size_t end = text.size();
    for (const std::string_view sign :
         {std::string_view(" "), std::string_view("·"), std::string_view("*"),
          std::string_view("+"), std::string_view("/"), std::string_view(",")}) {
      const std::size_t at = text.find(sign);
      if (at != std::string_view::npos) end = std::min(end, at + sign.size());
    }
    const std::string_view piece = text.substr(0, end);
    longest = std::max(longest, display_width(piece.substr(0, piece.find(' '))));
    text.remove_prefix(end);
  }
  return longest;
}

/// Whether the cell is the last of a row that has fewer than columns, and so takes the rest.
bool spans(const Table& table, const Row& row, std::size_t cell) {
  return cell + 1 == row.cells.size() && row.cells.size() < table.columns.size();
}

/// The widths that the cells ask for, or the least ones without a broken word.
std::vector<std::size_t> widths_of(const Table& table, bool least) {
  std::vector<std::size_t> widths;
  const auto width_of = [&table, least](std::size_t column, const std::string& cell) {
    const std::size_t whole = display_width(cell);
    // A number stays with its unit.
    const bool stays =
        table.columns[column].fold == Fold::whole || table.columns[column].align == Align::right;
    if (least && table.columns[column].fold == Fold::cut) return std::min(whole, kCutColumns);
    if (!least || stays || (column == 0 && whole <= kNameColumns)) return whole;
    const std::size_t indent = std::min(cell.find_first_not_of(' '), cell.size());
    return indent + longest_piece(std::string_view(cell).substr(indent));
  };
  const auto width_of_title = [least](const std::string& title) {
    std::size_t longest = 0;
    for (const std::string& word : lines_of(title, {1, 0, false})) {
      longest = std::max(longest, display_width(word));
    }
    return least ? longest : display_width(title);
  };
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    widths.push_back(width_of_title(table.columns[i].title));
    for (const Row& row : table.rows) {
      if (i >= row.cells.size() || spans(table, row, i)) continue;
      widths[i] = std::max(widths[i], width_of(i, row.cells[i]));
    }
  }
  return widths;
}

/// The layout within `columns`; words are broken where it cannot be otherwise.
ColumnLayout layout_of(const Table& table, std::size_t columns) {
  ColumnLayout layout;
  layout.widths = widths_of(table, false);
  const bool marked = std::any_of(table.rows.begin(), table.rows.end(),
                                  [](const Row& row) { return !row.marker.empty(); });
  if (marked) layout.indent = kIndent + 1;
  if (layout.total() > columns) layout.gap = kNarrowGap;
  const std::vector<std::size_t> least = widths_of(table, true);
  const auto shrinks_before = [&](std::size_t left, std::size_t right) {
    // Columns that may be cut shrink first, then the widest: its cells lose the smallest share.
    const auto key = [&](std::size_t column) {
      return std::pair(table.columns[column].fold == Fold::cut, layout.widths[column]);
    };
    return key(left) > key(right);
  };
  while (layout.total() > columns) {
    std::size_t widest = 0;
    bool found = false;
    for (std::size_t i = 0; i < layout.widths.size(); ++i) {
      if (layout.widths[i] <= least[i]) continue;
      if (!found || shrinks_before(i, widest)) widest = i;
      found = true;
    }
    // No column can shrink without breaking a word any more: words of the widest are broken.
    if (!found)
      widest = static_cast<std::size_t>(
          std::max_element(layout.widths.begin(), layout.widths.end()) - layout.widths.begin());
    --layout.widths[widest];
  }
  return layout;
}

/// Whether the table stands within `columns` without a broken word.
bool stands(const Table& table, std::size_t columns) {
  ColumnLayout layout;
  layout.widths = widths_of(table, true);
  layout.indent = kIndent + 1;
  layout.gap = kNarrowGap;
  return layout.total() <= columns;
}

void drop_column(Table& table, std::size_t column) {
  for (Row& row : table.rows) {
    if (column >= row.cells.size() || spans(table, row, column)) continue;
    row.cells.erase(row.cells.begin() + static_cast<std::ptrdiff_t>(column));
  }
  table.columns.erase(table.columns.begin() + static_cast<std::ptrdiff_t>(column));
}

/// Takes columns out until the rest stands; their titles.
std::string drop_columns(Table& table, std::size_t columns) {
  std::string dropped;
  for (const std::string_view title : kMissedLeast) {
    if (stands(table, columns)) break;
    const auto column =
        std::find_if(table.columns.begin(), table.columns.end(),
                     [title](const Column& candidate) { return candidate.title == title; });
    // Two columns stay: what a row is called and one thing that is said of it.
    if (column == table.columns.end() || table.columns.size() < 3) continue;
    dropped += (dropped.empty() ? "" : ", ") + column->title;
    drop_column(table, static_cast<std::size_t>(column - table.columns.begin()));
  }
  return dropped;
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
std::string row_text(const Table& table, const ColumnLayout& layout, const Row& row,
                     const RenderOptions& options) {
  std::string out;
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
  return out;
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

/// Cuts the cells of columns that may be cut to one line; whether there was one.
bool cut_cells(Table& table, const ColumnLayout& layout, const RenderOptions& options) {
  const std::string sign = printable("…", options);
  bool any = false;
  for (Row& row : table.rows) {
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      const std::size_t width = layout.widths[i];
      if (table.columns[i].fold != Fold::cut || spans(table, row, i)) continue;
      if (display_width(row.cells[i]) <= width) continue;
      std::size_t used = 0;
      std::size_t end = 0;
      for (const DisplayCell& cell : display_cells(row.cells[i], options)) {
        if (used + cell.columns + display_width(sign) > width) break;
        used += cell.columns;
        end = cell.end;
      }
      row.cells[i] = row.cells[i].substr(0, end) + sign;
      any = true;
    }
  }
  return any;
}

void append_note(std::string& out, const std::string& note, const RenderOptions& options) {
  for (const std::string& line : lines_of(note, {options.columns, 0, false})) {
    out += toned(line, Tone::faint, options) + '\n';
  }
}

void append(std::string& out, const Table& as_given, const RenderOptions& options) {
  Table table = printable_table(as_given, options);
  if (options.verbose) {
    for (Column& column : table.columns) {
      if (column.fold == Fold::cut) column.fold = Fold::wrap;
    }
  }
  const std::string dropped = drop_columns(table, options.columns);
  const ColumnLayout layout = layout_of(table, options.columns);
  const bool cut = cut_cells(table, layout, options);
  Row titles;
  titles.tone = Tone::faint;
  for (const Column& column : table.columns) titles.cells.push_back(column.title);
  const bool titled = std::any_of(titles.cells.begin(), titles.cells.end(),
                                  [](const std::string& title) { return !title.empty(); });
  if (titled) out += row_text(table, layout, titles, options);
  for (const Row& row : table.rows) out += row_text(table, layout, row, options);
  if (!dropped.empty()) append_note(out, "Left out at this width: " + dropped + ".", options);
  if (cut) append_note(out, printable("… is cut: -v writes it out.", options), options);
}

/// A command in lines that a shell reads as one: broken between its words, never within quotes.
std::vector<std::string> command_lines(std::string_view command, std::size_t columns) {
  constexpr std::string_view kContinues = " \\";
  constexpr std::string_view kHanging = "    ";
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char sign : command) {
    // As shell_quoted writes it: a backslash within quotes would be a character, not the end of a
    // line.
    if (sign == '\'') quoted = !quoted;
    if (sign == ' ' && !quoted) {
      words.emplace_back();
    } else {
      words.back() += sign;
    }
  }
  // An option stays with its value.
  std::vector<std::string> pieces;
  for (const std::string& word : words) {
    const bool value = !pieces.empty() && pieces.back().starts_with("--") &&
                       pieces.back().find(' ') == std::string::npos && !word.starts_with("--");
    if (value) {
      pieces.back() += " " + word;
    } else {
      pieces.push_back(word);
    }
  }
  std::vector<std::string> lines;
  for (const std::string& piece : pieces) {
    const bool fits =
        !lines.empty() &&
        display_width(lines.back()) + 1 + display_width(piece) + kContinues.size() <= columns;
    if (fits) {
      lines.back() += " " + piece;
    } else {
      if (!lines.empty()) lines.back() += kContinues;
      lines.push_back(lines.empty() ? piece : std::string(kHanging) + piece);
    }
  }
  return lines;
}

/// A line that begins with the program's name is a command, to be pasted.
void append(std::string& out, const Paragraph& paragraph, const RenderOptions& options) {
  constexpr std::string_view kCommand = "memest ";
  std::string_view text = paragraph.text;
  for (bool more = true; more;) {
    const std::size_t line_break = text.find('\n');
    more = line_break != std::string_view::npos;
    const std::string shown = printable(text.substr(0, line_break), options);
    const std::vector<std::string> lines = shown.starts_with(kCommand)
                                               ? command_lines(shown, options.columns)
                                               : lines_of(shown, {options.columns, 0, true});
    for (const std::string& line : lines) out += toned(line, paragraph.tone, options) + '\n';
    if (more) text.remove_prefix(line_break + 1);
  }
}

void append(std::string& out, const Heading& heading, const RenderOptions& options) {
  append(out, Paragraph{heading.text, Tone::strong}, options);
}

void append(std::string& out, const Figure& figure, const RenderOptions& options) {
  for (const std::string& line : figure.draw(options.columns)) {
    out += without_trailing_spaces(printable(line, options)) + '\n';
  }
}

void append(std::string&, const Chart&, const RenderOptions&) {}

}  // namespace

std::string text_of(const Page& page, const RenderOptions& options) {
  std::string out;
  bool after_heading = true;
  for (const Part& part : page.parts) {
    if (std::holds_alternative<Chart>(part)) continue;
    if (!after_heading) out += '\n';
    std::visit([&](const auto& shown) { append(out, shown, options); }, part);
    after_heading = std::holds_alternative<Heading>(part);
  }
  return out;
}

}  // namespace memest
