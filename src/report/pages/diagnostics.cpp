#include "memest/report/diagnostics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "memest/report/color.hpp"
#include "memest/report/display.hpp"

namespace memest {
namespace {

constexpr std::size_t kLineNumberColumns = 3;
constexpr std::size_t kMessageIndent = 4;
constexpr std::size_t kHintIndent = 12;  // under the hint's first word
constexpr std::string_view kCut = "...";
/// Bytes of a source line that are looked at on either side of the caret: a line of 100 MB is not
/// decoded to print 94 columns of it.
constexpr std::size_t kLookAround = 1024;

struct SeverityStyle {
  std::string_view word;
  Paint paint;
};

SeverityStyle style_of(Severity severity) {
  switch (severity) {
    case Severity::error:
      return {"error", Paint::red};
    case Severity::warning:
      return {"warning", Paint::yellow};
    case Severity::note:
      return {"note", Paint::cyan};
  }
  unreachable("a severity beyond the enum");
}

/// Line `number` (from 1) of `text` without its line break; empty beyond the last.
std::string_view line_of(std::string_view text, std::int32_t number) {
  for (; number > 1; --number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  return text;
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// The part of a line near the token, and where the token stands in it.
struct Neighbourhood {
  std::string_view text;
  std::size_t token_begin = 0;
  std::size_t token_end = 0;
  bool cut_before = false;
  bool cut_after = false;
};

Neighbourhood neighbourhood_of(std::string_view line, const SourceSpan& span) {
  const auto column = static_cast<std::size_t>(std::max(span.column, 1)) - 1;
  const auto length = static_cast<std::size_t>(std::max(span.length, 1));
  const std::size_t begin = std::min(column, line.size());
  const std::size_t end = std::min(begin + length, line.size());
  std::size_t first = begin > kLookAround ? begin - kLookAround : 0;
  // A cut within a character would show its rest as invalid bytes.
  while (first < begin && first > 0 && continues_character(line[first])) ++first;
  const std::size_t last = std::min(begin + kLookAround, line.size());
  return {line.substr(first, last - first), begin - first, std::min(end, last) - first, first > 0,
          last < line.size()};
}

std::size_t columns_of(const std::vector<DisplayCell>& cells, std::size_t from, std::size_t to) {
  return std::accumulate(
      cells.begin() + static_cast<std::ptrdiff_t>(from),
      cells.begin() + static_cast<std::ptrdiff_t>(to), std::size_t{0},
      [](std::size_t sum, const DisplayCell& cell) { return sum + cell.columns; });
}

struct Excerpt {
  std::string line;
  std::string carets;
};

/// The line cut to `columns`, so that the start of the token is in it with what stands before and
/// after it.
Excerpt excerpt_of(const Neighbourhood& near, std::size_t columns, const RenderOptions& options) {
  const std::vector<DisplayCell> cells = display_cells(near.text, options);
  const auto cell_from = [&](std::size_t byte) {
    return static_cast<std::size_t>(
        std::find_if(cells.begin(), cells.end(),
                     [byte](const DisplayCell& cell) { return cell.end > byte; }) -
        cells.begin());
  };
  const std::size_t token = cell_from(near.token_begin);
  std::size_t first = 0;
  std::size_t last = cells.size();
  bool cut_before = near.cut_before;
  bool cut_after = near.cut_after;
  if (cut_before || cut_after || columns_of(cells, 0, last) > columns) {
    // Up to two thirds of the room stand before the token: what was written there explains it.
    const std::size_t room = columns - 2 * kCut.size();
    while (columns_of(cells, first, token) > room * 2 / 3) ++first;
    while (first < last && columns_of(cells, first, last) > room) --last;
    cut_before = cut_before || first > 0;
    cut_after = cut_after || last < cells.size();
  }
  Excerpt result;
  if (cut_before) result.line += kCut;
  for (std::size_t i = first; i < last; ++i) result.line += cells[i].shown;
  if (cut_after) result.line += kCut;
  const std::size_t token_end =
      std::min(near.token_end > near.token_begin ? cell_from(near.token_end - 1) + 1 : token, last);
  const std::size_t before = columns_of(cells, first, token) + (cut_before ? kCut.size() : 0);
  const std::size_t width = token_end > token ? columns_of(cells, token, token_end) : 1;
  result.carets =
      std::string(before, ' ') + '^' + std::string(std::max<std::size_t>(width, 1) - 1, '~');
  return result;
}

/// `text` in lines, those after the first behind `indent` spaces.
std::string hung(std::string_view text, std::size_t indent, const RenderOptions& options) {
  std::string result;
  for (const std::string& line : lines_of(text, {options.columns, indent, false})) {
    if (!result.empty()) result += '\n' + std::string(indent, ' ');
    result += line;
  }
  return result;
}

std::string place_text(const SourceSpan& span) {
  if (!span.source) return {};
  if (span.line < 1) return span.source->name + ": ";
  if (span.column < 1) return fmt::format("{}:{}: ", span.source->name, span.line);
  return fmt::format("{}:{}:{}: ", span.source->name, span.line, span.column);
}

void append_excerpt(std::string& out, const SourceSpan& span, const RenderOptions& options) {
  const std::string number = std::to_string(span.line);
  const std::size_t gutter = std::max(kLineNumberColumns, number.size());
  const Excerpt excerpt = excerpt_of(neighbourhood_of(line_of(span.source->text, span.line), span),
                                     options.columns - gutter - 3, options);
  out += fmt::format("{:>{}} | {}\n", number, gutter, excerpt.line);
  out += fmt::format("{:>{}} | {}\n", "", gutter, painted(excerpt.carets, Paint::green, options));
}

void append(std::string& out, const Diagnostic& diagnostic, const RenderOptions& options) {
  const SeverityStyle severity = style_of(diagnostic.severity);
  const std::string place = printable(place_text(diagnostic.span), options);
  const std::string head = fmt::format("{}{}: ", place, severity.word);
  const std::string message = printable(diagnostic.message, options);
  // Broken into lines as one text, then the head is painted: escape sequences take no columns.
  const std::string text = hung(head + message, kMessageIndent, options);
  if (options.color && text.starts_with(head)) {
    out += painted(place, Paint::bold, options);
    out += painted(fmt::format("{}: ", severity.word), severity.paint, options);
    out += text.substr(head.size());
  } else {
    out += text;
  }
  out += '\n';
  const SourceSpan& span = diagnostic.span;
  if (span.source && span.line > 0 && !span.source->text.empty())
    append_excerpt(out, span, options);
  if (!diagnostic.hint.empty()) {
    out += hung("    = hint: " + printable(diagnostic.hint, options), kHintIndent, options) + '\n';
  }
}

}  // namespace

bool is_unavailable(const Diagnostics& diagnostics) {
  const auto errors = [&](bool unavailable) {
    return std::any_of(diagnostics.begin(), diagnostics.end(), [=](const Diagnostic& one) {
      return one.severity == Severity::error && one.unavailable == unavailable;
    });
  };
  return errors(true) && !errors(false);
}

std::string render(const Diagnostics& diagnostics, const RenderOptions& options) {
  std::string out;
  std::map<const SourceText*, std::size_t> counts;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (++counts[diagnostic.span.source.get()] <= kMostOfAText) append(out, diagnostic, options);
  }
  for (const Diagnostic& diagnostic : diagnostics) {
    std::size_t& count = counts[diagnostic.span.source.get()];
    if (count <= kMostOfAText) continue;
    SourceSpan whole{.source = diagnostic.span.source};
    append(out,
           {Severity::note, std::move(whole),
            fmt::format("{} more like these are not shown", count - kMostOfAText), ""},
           options);
    count = 0;
  }
  return out;
}

}  // namespace memest
