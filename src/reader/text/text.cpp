#include "reader/text/text.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

#include "memest/units/quantity.hpp"
#include "reader/text/value.hpp"

namespace memest {
namespace {

unsigned char byte_at(std::string_view text, std::size_t offset) {
  return static_cast<unsigned char>(text[offset]);
}

bool is_continuation(std::string_view text, std::size_t offset) {
  return offset < text.size() && (byte_at(text, offset) & 0xC0U) == 0x80U;
}

/// Control characters other than tab and line ends mark a binary file.
bool is_binary(unsigned char byte) {
  return (byte < 0x20U && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7FU;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

}  // namespace

LineIndex::LineIndex(std::shared_ptr<const SourceText> source)
    : source_(std::move(source)), line_starts_{0} {
  const std::string_view text = source_->text;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos;
       end = text.find('\n', end + 1)) {
    line_starts_.push_back(end + 1);
  }
}

SourceSpan LineIndex::span(std::size_t offset, std::size_t length) const {
  constexpr auto kLargest = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
  const std::string_view text = source_->text;
  offset = std::min(offset, text.size());
  const auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  const auto line = static_cast<std::size_t>(next - line_starts_.begin());
  std::size_t line_end = next == line_starts_.end() ? text.size() : *next - 1;
  if (line_end > offset && text[line_end - 1] == '\r') --line_end;
  const std::size_t column = offset - line_starts_[line - 1] + 1;
  return {.source = source_,
          .line = static_cast<std::int32_t>(std::min(line, kLargest)),
          .column = static_cast<std::int32_t>(std::min(column, kLargest)),
          .length = static_cast<std::int32_t>(std::min({length, line_end - offset, kLargest}))};
}

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const unsigned char first = byte_at(text, 0);
  if (first < 0x80U) return 1;
  std::size_t length = 0;
  if (first >= 0xC2U && first <= 0xDFU) length = 2;
  if (first >= 0xE0U && first <= 0xEFU) length = 3;
  if (first >= 0xF0U && first <= 0xF4U) length = 4;
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text, i)) return 0;
  }
  if (length < 3) return length;
  const unsigned char second = byte_at(text, 1);
  const bool overlong = (first == 0xE0U && second < 0xA0U) || (first == 0xF0U && second < 0x90U);
  const bool beyond = (first == 0xEDU && second > 0x9FU) || (first == 0xF4U && second > 0x8FU);
  return overlong || beyond ? 0 : length;
}

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(kBlanks) - begin + 1);
}

bool is_harmless(std::string_view character) {
  if (utf8_length(character) != character.size()) return false;
  const unsigned char first = byte_at(character, 0);
  if (character.size() == 1) return first >= 0x20U && first != 0x7FU;
  const unsigned char second = byte_at(character, 1);
  if (first == 0xC2U) return second >= 0xA0U;  // U+0080 to U+009F
  if (first == 0xD8U) return second != 0x9CU;  // U+061C
  if (first == 0xE2U && second == 0x80U) {     // U+200B to U+200F, U+2028 to U+202E
    const unsigned char third = byte_at(character, 2);
    return third < 0x8BU || (third > 0x8FU && third < 0xA8U) || third > 0xAEU;
  }
  if (first == 0xE2U && second == 0x81U) return byte_at(character, 2) < 0xA0U;   // U+2060 to U+206F
  if (first == 0xEFU && second == 0xBBU) return byte_at(character, 2) != 0xBFU;  // U+FEFF
  if (first == 0xEFU && second == 0xBFU) return byte_at(character, 2) < 0xBEU;   // U+FFFE, U+FFFF
  return !(first == 0xF3U && second == 0xA0U);                                   // tags
}

std::string harmless_text(std::string_view name) {
  std::string text;
  while (!name.empty()) {
    const std::size_t length = std::max<std::size_t>(utf8_length(name), 1);
    text += is_harmless(name.substr(0, length)) ? name.substr(0, length) : "?";
    name.remove_prefix(length);
  }
  return text;
}

std::string too_large_text(std::string_view noun, const TextKind& kind) {
  return "the " + std::string(noun) + " is larger than " +
         std::to_string(kind.most_bytes / static_cast<std::size_t>(kMiB)) + " MiB";
}

std::optional<Diagnostic> find_text_fault(const LineIndex& lines, const TextKind& kind) {
  const std::string_view text = lines.source()->text;
  const auto fault = [&](std::size_t offset, std::string message, std::string hint) {
    return Diagnostic{Severity::error, lines.span(offset, 0), std::move(message), std::move(hint)};
  };
  const Diagnostic whole{Severity::error, {lines.source(), 0, 0, 0}, "", ""};
  if (text.size() > kind.most_bytes) {
    Diagnostic large = whole;
    large.message = too_large_text("text", kind);
    large.hint = kind.large_hint;
    return large;
  }
  if (is_blank(text)) {
    Diagnostic empty = whole;
    empty.message = "the file is empty";
    empty.hint = kind.empty_hint;
    return empty;
  }
  for (std::size_t offset = 0; offset < text.size();) {
    if (is_binary(byte_at(text, offset))) {
      Diagnostic binary = whole;
      binary.message = "this is a binary file, not text";
      return binary;
    }
    const std::size_t length = utf8_length(text.substr(offset, 4));
    if (length == 0) return fault(offset, "this is not UTF-8 text", "save the file as UTF-8");
    offset += length;
  }
  return std::nullopt;
}

std::string_view take_line(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace memest
