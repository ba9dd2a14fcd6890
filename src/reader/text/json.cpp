// A strict JSON parser (RFC 8259). Written here rather than taken from a library because every
// token needs its place, and a library's events tell only where its lexer stands.
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "reader/text/text.hpp"
#include "reader/text/value.hpp"

namespace memest {
namespace {

/// Ends the parse; `diagnostic` says why. Never leaves this file.
struct JsonRefusal {
  Diagnostic diagnostic;
};

bool is_json_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_json_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80U) {
    put(code);
  } else if (code < 0x800U) {
    put(0xC0U | (code >> 6U));
    put(0x80U | (code & 0x3FU));
  } else if (code < 0x10000U) {
    put(0xE0U | (code >> 12U));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  } else {
    put(0xF0U | (code >> 18U));
    put(0x80U | ((code >> 12U) & 0x3FU));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  }
}

class JsonParser {
 public:
  explicit JsonParser(const LineIndex& lines) : lines_(lines), text_(lines.source()->text) {}
  /// One line of the text: what stands in [begin, end).
  JsonParser(const LineIndex& lines, std::size_t begin, std::size_t end)
      : lines_(lines), text_(std::string_view(lines.source()->text).substr(0, end)), at_(begin) {}

  Value parse() {
    Value value = parse_value(0);
    skip_space();
    if (at_ < text_.size()) refuse(at_, 1, "text after the end of the JSON value", "");
    return value;
  }

  [[nodiscard]] Diagnostics& errors() { return errors_; }

 private:
  Value parse_value(int depth) {
    skip_space();
    if (at_ >= text_.size()) refuse(at_, 0, "the text ends where a value is missing", "");
    if (++values_ > kMaxValues) {
      refuse(at_, 1, "more than " + std::to_string(kMaxValues) + " values", "");
    }
    const char first = text_[at_];
    if (first == '{' || first == '[') {
      if (depth >= kMaxDepth) {
        refuse(at_, 1, "nested more than " + std::to_string(kMaxDepth) + " levels deep", "");
      }
      return first == '{' ? parse_object(depth + 1) : parse_array(depth + 1);
    }
    if (first == '"') return parse_string();
    if (first == '-' || is_json_digit(first)) return parse_number();
    return parse_word();
  }

  Value parse_object(int depth) {
    Value object;
    object.kind = ValueKind::mapping;
    object.span = lines_.span(at_++, 1);
    std::unordered_map<std::string, std::int32_t> key_lines;
    for (bool first = true; !end_of('}', "member", first); first = false) {
      if (at_ >= text_.size() || text_[at_] != '"') {
        refuse(at_, word_length(at_), "a key in double quotes is missing here", "");
      }
      Value key = parse_string();
      skip_space();
      if (at_ >= text_.size() || text_[at_] != ':') {
        refuse(at_, 1, "':' is missing after the key", "");
      }
      ++at_;
      Value value = parse_value(depth);
      const auto [known, is_new] = key_lines.try_emplace(key.text, key.span.line);
      if (is_new) {
        object.members.push_back({std::move(key.text), std::move(key.span), std::move(value)});
      } else {
        errors_.push_back({Severity::error, key.span, "duplicate key '" + key.text + "'",
                           "it is first set in line " + std::to_string(known->second)});
      }
    }
    return object;
  }

  Value parse_array(int depth) {
    Value array;
    array.kind = ValueKind::sequence;
    array.span = lines_.span(at_++, 1);
    for (bool first = true; !end_of(']', "value", first); first = false) {
      array.items.push_back(parse_value(depth));
    }
    return array;
  }

  /// Steps over the closing bracket, or over the comma before the next element.
  bool end_of(char closing, std::string_view element, bool first) {
    skip_space();
    if (at_ < text_.size() && text_[at_] == closing) {
      ++at_;
      return true;
    }
    if (first) return false;
    if (at_ >= text_.size() || text_[at_] != ',') {
      refuse(at_, 1,
             std::string("',' or '") + closing + "' is missing after the " + std::string(element),
             "");
    }
    const std::size_t comma = at_++;
    skip_space();
    if (at_ < text_.size() && text_[at_] == closing) {
      refuse(comma, 1, "a comma before the closing bracket", "JSON has no trailing commas");
    }
    return false;
  }

  Value parse_string() {
    const std::size_t start = at_++;
    Value value;
    value.kind = ValueKind::scalar;
    value.quoted = true;
    while (true) {
      const std::size_t run = text_.find_first_of("\"\\\t\r\n", at_);
      if (run == std::string_view::npos || text_[run] == '\r' || text_[run] == '\n') {
        refuse(start, text_.size(), "a string that is not closed in its line", "");
      }
      value.text.append(text_.substr(at_, run - at_));
      at_ = run + 1;
      if (text_[run] == '"') break;
      // RFC 8259, 7: a string has no character below U+0020 unescaped.
      if (text_[run] == '\t') refuse(run, 1, "a tab in a string", "write \\t");
      parse_escape(value.text);
    }
    value.span = lines_.span(start, at_ - start);
    return value;
  }

  void parse_escape(std::string& text) {
    static constexpr std::string_view kEscapes = "\"\\/bfnrt";
    static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const char escape = at_ < text_.size() ? text_[at_] : '\0';
    ++at_;
    if (escape != 'u') {
      const std::size_t index = kEscapes.find(escape);
      if (index == std::string_view::npos) refuse(at_ - 2, 2, "an unknown escape", "");
      text.push_back(kMeanings[index]);
      return;
    }
    const std::size_t start = at_ - 2;
    std::uint32_t code = parse_hex4(start);
    if (code >= 0xDC00U && code <= 0xDFFFU) refuse(start, 6, "half of a surrogate pair", "");
    // RFC 8259, 7: \uD83D\uDE00 is one character beyond U+FFFF, in two halves as UTF-16 has it.
    if (code >= 0xD800U && code <= 0xDBFFU) {
      if (text_.substr(at_, 2) != "\\u") refuse(start, 6, "half of a surrogate pair", "");
      at_ += 2;
      const std::uint32_t low = parse_hex4(start);
      if (low < 0xDC00U || low > 0xDFFFU) refuse(start, 12, "half of a surrogate pair", "");
      code = 0x10000U + ((code - 0xD800U) << 10U) + (low - 0xDC00U);
    }
    append_utf8(text, code);
  }

  std::uint32_t parse_hex4(std::size_t start) {
    std::uint32_t code = 0;
    for (int digits = 0; digits < 4; ++digits, ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : '\0';
      std::uint32_t digit = 0;
      if (is_json_digit(c)) {
        digit = static_cast<std::uint32_t>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        digit = static_cast<std::uint32_t>(c - 'a') + 10U;
      } else if (c >= 'A' && c <= 'F') {
        digit = static_cast<std::uint32_t>(c - 'A') + 10U;
      } else {
        refuse(start, at_ - start, "\\u needs four hexadecimal digits", "");
      }
      code = code * 16U + digit;
    }
    return code;
  }

  Value parse_number() {
    const std::size_t start = at_;
    if (text_[at_] == '-') ++at_;
    const std::size_t integer = at_;
    skip_digits(start);
    // RFC 8259, 6: int = zero / ( digit1-9 *DIGIT ).
    if (text_[integer] == '0' && at_ - integer > 1) {
      refuse(start, at_ - start, "a number with leading zeros", "");
    }
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      skip_digits(start);
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      skip_digits(start);
    }
    return scalar(start);
  }

  void skip_digits(std::size_t start) {
    const std::size_t first = at_;
    while (at_ < text_.size() && is_json_digit(text_[at_])) ++at_;
    if (at_ == first) refuse(start, at_ - start + 1, "this is not a number", "");
  }

  Value parse_word() {
    const std::size_t start = at_;
    const std::size_t length = word_length(start);
    const std::string_view word = text_.substr(start, length);
    if (word == "true" || word == "false") {
      at_ += length;
      return scalar(start);
    }
    if (word == "null") {
      at_ += length;
      Value null;
      null.span = lines_.span(start, length);
      return null;
    }
    // Python's json.dump writes NaN and Infinity unless told allow_nan=False.
    const bool python =
        word == "True" || word == "False" || word == "None" || word == "NaN" || word == "Infinity";
    refuse(start, length, "this is not a JSON value",
           python ? "that is Python's word; JSON has true, false, null and finite numbers" : "");
  }

  [[nodiscard]] Value scalar(std::size_t start) const {
    Value value;
    value.kind = ValueKind::scalar;
    value.text = std::string(text_.substr(start, at_ - start));
    value.span = lines_.span(start, at_ - start);
    return value;
  }

  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  /// At least 1, so that a caret has something to stand under.
  [[nodiscard]] std::size_t word_length(std::size_t offset) const {
    std::size_t end = offset;
    while (end < text_.size() && is_word(text_[end])) ++end;
    return std::max<std::size_t>(end - offset, 1);
  }

  [[noreturn]] void refuse(std::size_t offset, std::size_t length, std::string message,
                           std::string hint) const {
    throw JsonRefusal{
        {Severity::error, lines_.span(offset, length), std::move(message), std::move(hint)}};
  }

  const LineIndex& lines_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
  Diagnostics errors_;
};

Checked<Value> run(JsonParser parser) {
  Value root;
  try {
    root = parser.parse();
  } catch (const JsonRefusal& refusal) {
    parser.errors().push_back(refusal.diagnostic);
  }
  if (!parser.errors().empty()) return std::move(parser.errors());
  return root;
}

}  // namespace

Checked<Value> parse_json(const std::shared_ptr<const SourceText>& source) {
  const LineIndex lines(source);
  if (std::optional<Diagnostic> fault = find_text_fault(lines)) return *std::move(fault);
  return run(JsonParser(lines));
}

Checked<std::vector<Value>> parse_json_lines(const std::shared_ptr<const SourceText>& source) {
  const LineIndex lines(source);
  if (auto fault = find_text_fault(lines, kRecordsText)) return *std::move(fault);
  const std::string_view text = source->text;
  std::vector<Value> values;
  Diagnostics errors;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (text.substr(begin, end - begin).find_first_not_of(" \t\r") != std::string_view::npos) {
      Checked<Value> value = run(JsonParser(lines, begin, end));
      append(value.diagnostics(), errors);
      if (value.ok()) values.push_back(std::move(value).value());
    }
    begin = end + 1;
  }
  if (!errors.empty()) return errors;
  return values;
}

}  // namespace memest
