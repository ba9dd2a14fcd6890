// Text on a terminal: how many columns it takes, how it is made harmless, how it reads without
// UTF-8, how it is broken into lines. Everything here works on whole characters, never on halves.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "memest/report/render_options.hpp"

namespace memest {

/// One character as shown: what is printed for the bytes [begin, end) of the text.
struct DisplayCell {
  std::string shown;
  std::size_t columns = 1;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The characters of `text` as they may be printed: control characters, reversals of the writing
/// direction and bytes that are no UTF-8 become \x1b or \u{202e}; a tab becomes spaces.
std::vector<DisplayCell> display_cells(std::string_view text, const RenderOptions& options);

/// `text` made harmless as above, in one string; line breaks are kept.
std::string printable(std::string_view text, const RenderOptions& options);

/// Columns that `text` takes. Combining marks take none, East Asian wide characters two.
std::size_t display_width(std::string_view text);

/// `text` with spaces after it (or before it) up to `columns`.
std::string padded_right(std::string_view text, std::size_t columns);
std::string padded_left(std::string_view text, std::size_t columns);

/// `text` without UTF-8: the signs that memest prints become ASCII words, others `?`.
std::string to_ascii(std::string_view text);

/// How text is broken into lines.
struct LineShape {
  std::size_t columns = kTextColumns;
  std::size_t hanging = 0;   ///< the lines after the first have that many columns less
  bool split_words = false;  ///< a word longer than a line is split after a sign of a formula
};

/// The lines of `text`, which is printable already, without the spaces that they were broken at.
/// Line breaks in `text` are kept.
std::vector<std::string> lines_of(std::string_view text, const LineShape& shape);

}  // namespace memest
