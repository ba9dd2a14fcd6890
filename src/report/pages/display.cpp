#include "memest/report/display.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace memest {
namespace {

constexpr std::string_view kTab = "    ";

struct Range {
  char32_t first;
  char32_t last;
};

// Unicode 15, UAX #11 (wide and fullwidth) and general category Mn, in the blocks that text holds.
constexpr std::array<Range, 12> kWide = {{{0x1100, 0x115F},
                                          {0x2E80, 0x303E},
                                          {0x3041, 0x33FF},
                                          {0x3400, 0x4DBF},
                                          {0x4E00, 0x9FFF},
                                          {0xA000, 0xA4CF},
                                          {0xAC00, 0xD7A3},
                                          {0xF900, 0xFAFF},
                                          {0xFE30, 0xFE6F},
                                          {0xFF00, 0xFF60},
                                          {0x1F300, 0x1FAFF},
                                          {0x20000, 0x3FFFD}}};
constexpr std::array<Range, 7> kZeroWidth = {{{0x0300, 0x036F},
                                              {0x0483, 0x0489},
                                              {0x0591, 0x05BD},
                                              {0x064B, 0x065F},
                                              {0x1AB0, 0x1AFF},
                                              {0x20D0, 0x20FF},
                                              {0xFE00, 0xFE0F}}};
// Control characters, those that reorder or hide what follows them, and the two that are no
// characters, which XML has no place for.
constexpr std::array<Range, 9> kHarmful = {{{0x0000, 0x001F},
                                            {0x007F, 0x009F},
                                            {0x061C, 0x061C},
                                            {0x200B, 0x200F},
                                            {0x2028, 0x202E},
                                            {0x2060, 0x206F},
                                            {0xFEFF, 0xFEFF},
                                            {0xFFFE, 0xFFFF},
                                            {0xE0000, 0xE0FFF}}};

struct AsciiName {
  std::string_view sign;
  std::string_view name;
};

// Every sign that memest itself prints.
constexpr std::array<AsciiName, 49> kAsciiNames = {
    {{"Φ", "Phi"},    {"·", "*"},  {"▸", ">"},    {"✗", "x"},  {"±", "+/-"},   {"×", "x"},
     {"…", "..."},    {"–", "-"},  {"—", "-"},    {"−", "-"},  {"≤", "<="},    {"≥", ">="},
     {"≈", "~"},      {"→", "->"}, {"√", "sqrt"}, {"µ", "u"},  {"⌈", "ceil("}, {"⌉", ")"},
     {"⌊", "floor("}, {"⌋", ")"},  {"Σ", "sum"},  {"✓", "ok"}, {"“", "\""},    {"”", "\""},
     {"’", "'"},      {"é", "e"},  {"⁰", "^0"},   {"¹", "^1"}, {"²", "^2"},    {"³", "^3"},
     {"⁴", "^4"},     {"⁵", "^5"}, {"⁶", "^6"},   {"⁷", "^7"}, {"⁸", "^8"},    {"⁹", "^9"},
     {"█", "#"},      {"▇", "#"},  {"▆", "#"},    {"▅", "="},  {"▄", "="},     {"▃", "="},
     {"▂", "_"},      {"▁", "_"},  {"░", "."},    {"│", "|"},  {"└", "+"},     {"─", "-"},
     {"▾", "v"}}};

template <std::size_t kSize>
bool within(const std::array<Range, kSize>& ranges, char32_t code) {
  return std::any_of(ranges.begin(), ranges.end(), [code](const Range& range) {
    return code >= range.first && code <= range.last;
  });
}

struct Decoded {
  char32_t code = 0;
  std::size_t length = 1;
  bool valid = false;
};

/// The character at the start of `text`, which is not empty; overlong forms and surrogates are not
/// valid.
Decoded decode(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {byte(0), 1, true};
  const std::size_t length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  // RFC 3629: 0x80 to 0xBF continue a character, 0xC0 and 0xC1 could only begin an overlong one,
  // and 0xF5 and beyond one past U+10FFFF.
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < length) return {};
  // A first byte 110xxxxx, 1110xxxx or 11110xxx holds 5, 4 or 3 bits of the code; each of the
  // others 6.
  char32_t code = byte(0) & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = (code << 6) | (byte(i) & 0x3FU);
  }
  constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kSmallest[length] || surrogate || code > 0x10FFFF) return {};
  return {code, length, true};
}

/// Shown as it is whatever the options, in one column.
bool is_plain_ascii(char byte) { return byte >= 0x20 && byte < 0x7F; }

std::size_t columns_of(char32_t code) {
  return within(kZeroWidth, code) ? 0 : within(kWide, code) ? 2 : 1;
}

std::string escape_of(const Decoded& character, unsigned char byte) {
  // An invalid byte is shown alone, and decoding goes on with the next.
  if (!character.valid || character.code < 0x80) return fmt::format("\\x{:02x}", byte);
  return fmt::format("\\u{{{:x}}}", static_cast<std::uint32_t>(character.code));
}

std::string ascii_of(std::string_view character) {
  const auto known = std::find_if(kAsciiNames.begin(), kAsciiNames.end(),
                                  [&](const AsciiName& row) { return row.sign == character; });
  return std::string(known == kAsciiNames.end() ? std::string_view("?") : known->name);
}

DisplayCell cell_at(std::string_view text, std::size_t begin, const RenderOptions& options) {
  const Decoded character = decode(text.substr(begin));
  const std::string_view bytes = text.substr(begin, character.length);
  DisplayCell cell{std::string(bytes), 1, begin, begin + character.length};
  if (bytes == "\t") {
    cell.shown = kTab;
    cell.columns = kTab.size();
  } else if (!character.valid || within(kHarmful, character.code)) {
    cell.shown = escape_of(character, static_cast<unsigned char>(text[begin]));
    cell.columns = cell.shown.size();
  } else if (!options.unicode && character.code >= 0x80) {
    cell.shown = ascii_of(bytes);
    cell.columns = cell.shown.size();
  } else {
    cell.columns = columns_of(character.code);
  }
  return cell;
}

/// Bytes of the longest start of `text` that takes at most `columns`; at least one character.
std::size_t fitting_prefix(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (std::size_t used = 0; end < text.size();) {
    const Decoded character = decode(text.substr(end));
    used += character.valid ? columns_of(character.code) : 1;
    if (used > columns && end > 0) break;
    end += character.length;
  }
  return end;
}

/// Where to end a line that may hold `fitting` bytes of `text`: before a space, else, where words
/// may be split, after a sign of a formula; 0 where no place is good.
std::size_t break_before(std::string_view text, std::size_t fitting, const LineShape& shape) {
  const std::size_t space = text.rfind(' ', fitting);
  if (space != std::string_view::npos && text.find_first_not_of(' ') < space) return space;
  if (!shape.split_words) return 0;
  for (const std::string_view sign :
       {std::string_view("·"), std::string_view("*"), std::string_view("+"), std::string_view("/"),
        std::string_view(","), std::string_view("-")}) {
    if (fitting <= sign.size()) continue;
    const std::size_t at = text.rfind(sign, fitting - sign.size());
    if (at != std::string_view::npos && at > 0) return at + sign.size();
  }
  return fitting;
}

/// Adds the lines of `text`, which holds no line break.
void append_lines(std::vector<std::string>& lines, std::string_view text, const LineShape& shape) {
  while (true) {
    const std::size_t hanging = lines.empty() ? 0 : shape.hanging;
    const std::size_t columns = shape.columns > hanging ? shape.columns - hanging : 1;
    const std::size_t fitting = fitting_prefix(text, columns);
    if (fitting == text.size()) break;
    std::size_t end = break_before(text, fitting, shape);
    if (end == 0) end = text.find(' ', fitting);
    if (end == std::string_view::npos) break;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(text.find_first_not_of(' ', end), text.size()));
  }
  lines.emplace_back(text);
}

}  // namespace

std::vector<DisplayCell> display_cells(std::string_view text, const RenderOptions& options) {
  std::vector<DisplayCell> cells;
  cells.reserve(text.size());
  for (std::size_t begin = 0; begin < text.size(); begin = cells.back().end) {
    cells.push_back(cell_at(text, begin, options));
  }
  return cells;
}

std::string printable(std::string_view text, const RenderOptions& options) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t begin = 0; begin < text.size();) {
    if (text[begin] == '\n' || is_plain_ascii(text[begin])) {
      result += text[begin];
      ++begin;
      continue;
    }
    const DisplayCell cell = cell_at(text, begin, options);
    result += cell.shown;
    begin = cell.end;
  }
  return result;
}

std::size_t display_width(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const Decoded character = decode(text.substr(begin));
    columns += character.valid ? columns_of(character.code) : 1;
    begin += character.length;
  }
  return columns;
}

std::string padded_right(std::string_view text, std::size_t columns) {
  const std::size_t width = display_width(text);
  return std::string(text) + std::string(width < columns ? columns - width : 0, ' ');
}

std::string padded_left(std::string_view text, std::size_t columns) {
  const std::size_t width = display_width(text);
  return std::string(width < columns ? columns - width : 0, ' ') + std::string(text);
}

std::string to_ascii(std::string_view text) {
  std::string result;
  for (std::size_t begin = 0; begin < text.size();) {
    const Decoded character = decode(text.substr(begin));
    const std::string_view bytes = text.substr(begin, character.length);
    result += character.valid && character.code < 0x80 ? std::string(bytes) : ascii_of(bytes);
    begin += character.length;
  }
  return result;
}

std::vector<std::string> lines_of(std::string_view text, const LineShape& shape) {
  std::vector<std::string> lines;
  for (bool more = true; more;) {
    const std::size_t line_break = text.find('\n');
    more = line_break != std::string_view::npos;
    append_lines(lines, text.substr(0, line_break), shape);
    if (more) text.remove_prefix(line_break + 1);
  }
  return lines;
}

}  // namespace memest
