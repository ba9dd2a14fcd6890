// A page is an answer before its format is chosen: headings, paragraphs, tables, figures and
// charts. It is printed for a terminal, as markdown and for a browser (html.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "memest/report/chart.hpp"
#include "memest/report/render_options.hpp"

namespace memest {

enum class Align : std::uint8_t { left, right };
enum class Tone : std::uint8_t { plain, strong, faint, good, bad, uncertain };

/// How a cell that is wider than its column is folded.
enum class Fold : std::uint8_t {
  wrap,   ///< it is broken into lines
  whole,  ///< the column is as wide as its widest cell
  cut     ///< its rest is left out, where the options are not verbose
};

struct Column {
  std::string title;
  Align align = Align::left;
  Fold fold = Fold::wrap;
};

struct Row {
  std::vector<std::string> cells;  ///< as many as columns; fewer: the last one takes the rest
  std::string marker;              ///< a sign before the row: "▸", "✗"
  Tone tone = Tone::plain;
};

/// A table whose titles are all empty is printed without them.
struct Table {
  std::vector<Column> columns;
  std::vector<Row> rows;
};

struct Heading {
  std::string text;
};

struct Paragraph {
  std::string text;
  Tone tone = Tone::plain;
};

/// A drawing in signs of equal width: its lines, none wider than `columns`. Behind a chart it is
/// that chart's, for formats that draw none.
struct Figure {
  std::function<std::vector<std::string>(std::size_t columns)> draw;
};

using Part = std::variant<Heading, Paragraph, Table, Figure, Chart>;

struct Page {
  std::vector<Part> parts;
};

/// The page for a terminal, without its charts: no line is wider than `options.columns`; cells are
/// broken into lines where they must.
std::string text_of(const Page& page, const RenderOptions& options);

/// The page as GitHub-flavoured markdown, UTF-8, without its charts.
std::string markdown_of(const Page& page);

/// The table as RFC 4180 CSV with a header line, UTF-8, lines ended by a newline alone.
std::string csv_of(const Table& table);

}  // namespace memest
