#include "reader/foreign/python.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "reader/foreign/arithmetic.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/text.hpp"

namespace memest {
namespace {

bool is_name(std::string_view text) {
  constexpr std::string_view kSigns =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
  return !text.empty() && text.find_first_not_of(kSigns) == std::string_view::npos &&
         (text.front() < '0' || text.front() > '9');
}

/// The part of a line before its comment; a hash within quotes is none.
std::string_view without_comment(std::string_view line) {
  char quote = '\0';
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != '\0') {
      if (c == '\\') {
        ++i;
      } else if (c == quote) {
        quote = '\0';
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      return line.substr(0, i);
    }
  }
  return line;
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

/// The text between a string's quotes where `text` is one string without escapes.
std::optional<std::string> string_in(std::string_view text) {
  if (text.size() < 2 || (text.front() != '"' && text.front() != '\'')) return std::nullopt;
  const std::string_view inside = text.substr(1, text.size() - 2);
  if (text.back() != text.front() || inside.find(text.front()) != std::string_view::npos ||
      inside.find('\\') != std::string_view::npos) {
    return std::nullopt;
  }
  return std::string(inside);
}

class PythonReader {
 public:
  explicit PythonReader(const LineIndex& lines) : lines_(lines) {
    root_.kind = ValueKind::mapping;
    root_.span = {lines.source(), 0, 0, 0};
  }

  Value read() {
    const std::string_view text = lines_.source()->text;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = text.substr(begin, end - begin);
      if (!in_long_string_ && root_.members.size() < kMaxValues) read_line(line, begin);
      if (count_of(line, "\"\"\"") % 2 == 1) in_long_string_ = !in_long_string_;
      begin = end + 1;
    }
    return std::move(root_);
  }

 private:
  void read_line(std::string_view line, std::size_t offset) {
    line = without_comment(line);
    // `n_layer: int = 12` has its type between the two.
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || line.substr(equals).starts_with("==")) return;
    const std::string_view left = line.substr(0, equals);
    const std::string_view name = trimmed(left.substr(0, left.find(':')));
    const std::string_view written = trimmed(line.substr(equals + 1));
    if (!is_name(name) || !line.starts_with(name) || written.empty()) return;
    Value value = value_of_literal(written);
    value.span = lines_.span(offset + static_cast<std::size_t>(written.data() - line.data()),
                             written.size());
    const SourceSpan key_span = lines_.span(offset, name.size());
    const auto same = std::ranges::find(root_.members, name, &Member::key);
    if (same == root_.members.end()) {
      root_.members.push_back({std::string(name), key_span, std::move(value)});
    } else {
      *same = {std::string(name), key_span, std::move(value)};
    }
  }

  [[nodiscard]] Value value_of_literal(std::string_view written) const {
    Value value;
    if (written == "None") return value;
    value.kind = ValueKind::scalar;
    value.text = written;
    if (written == "True" || written == "False") {
      value.text = written == "True" ? "true" : "false";
    } else if (auto inside = string_in(written)) {
      value.text = *std::move(inside);
      value.quoted = true;
    } else if (!number_of(written)) {
      const auto known = [this](std::string_view name) {
        const Value* other = root_.find(name);
        return other == nullptr ? std::nullopt : integer_of(other->text);
      };
      if (const auto whole = evaluate_whole(written, known)) value.text = std::to_string(*whole);
      const Value* other = root_.find(written);
      if (other != nullptr) return *other;
    }
    return value;
  }

  const LineIndex& lines_;
  Value root_;
  bool in_long_string_ = false;
};

}  // namespace

Checked<Value> parse_python(const SourcePointer& source) {
  const LineIndex lines(source);
  if (std::optional<Diagnostic> fault = find_text_fault(lines)) return *std::move(fault);
  return PythonReader(lines).read();
}

}  // namespace memest
