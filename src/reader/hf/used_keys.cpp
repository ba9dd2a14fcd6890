#include "reader/hf/used_keys.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "reader/text/text.hpp"

namespace memest::hf {
namespace {

constexpr std::size_t kColumns = 96;  ///< of a line, the spec's own indentation not counted

/// Words that YAML takes for something else than text.
/// YAML 1.1, which PyYAML reads, takes yes, no, on and off for flags, and its type bool y and n
/// too.
constexpr std::array<std::string_view, 9> kNotText = {"true", "false", "null", "yes", "no",
                                                      "on",   "off",   "y",    "n"};

bool is_plain(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return !text.empty() && letter(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return letter(c) || digit(c) || c == '_' || c == '-'; }) &&
         std::find(kNotText.begin(), kNotText.end(), lower) == kNotText.end();
}

/// In double quotes, what a terminal would obey as YAML's escapes.
std::string quoted_text(std::string_view written) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "\"";
  for (std::size_t place = 0; place < written.size();) {
    const std::size_t length = std::max<std::size_t>(utf8_length(written.substr(place)), 1);
    const std::string_view character = written.substr(place, length);
    const auto byte = static_cast<unsigned char>(character.back());
    place += length;
    if (is_harmless(character)) {
      if (character == "\"" || character == "\\") text += '\\';
      text += character;
    } else if (length <= 2) {  // a control character, of the first block or the second
      text += {'\\', 'x', kDigits[byte >> 4U], kDigits[byte & 15U]};
    } else {
      text += '?';
    }
  }
  return text + '"';
}

std::string scalar_text(const Value& value) {
  return !value.quoted || is_plain(value.text) ? value.text : quoted_text(value.text);
}

std::string key_text(const std::string& key) { return is_plain(key) ? key : quoted_text(key); }

class KeyWriter {
 public:
  explicit KeyWriter(const Reading& reading) : reading_(reading) {}

  /// In flow style, on one line; of a mapping the members that were looked at.
  [[nodiscard]] std::string flow(const Value& value) const {
    switch (value.kind) {
      case ValueKind::null:
        return "null";
      case ValueKind::scalar:
        return scalar_text(value);
      case ValueKind::sequence: {
        std::string text;
        for (const Value& item : value.items) text += (text.empty() ? "" : ", ") + flow(item);
        return "[" + text + "]";
      }
      case ValueKind::mapping: {
        std::string text;
        for (const Member& member : value.members) {
          if (!reading_.used.contains(&member.value)) continue;
          text += (text.empty() ? "" : ", ") + key_text(member.key) + ": " + flow(member.value);
        }
        return "{" + text + "}";
      }
    }
    return {};
  }

  /// A key with its value; nothing where no part of a mapping was looked at.
  [[nodiscard]] std::string line(const Member& member) const {
    if (!reading_.used.contains(&member.value)) return {};
    if (member.key == "id2label" && !member.value.members.empty()) {
      return "num_labels: " + std::to_string(member.value.members.size()) + "\n";
    }
    const std::string value = flow(member.value);
    return value == "{}" ? "" : wrapped(key_text(member.key) + ": " + value) + "\n";
  }

 private:
  /// Breaks a long flow value after commas.
  static std::string wrapped(const std::string& text) {
    std::string result;
    std::size_t column = 0;
    for (std::size_t place = 0; place < text.size(); ++place) {
      result += text[place];
      ++column;
      const bool may_break = text[place] == ' ' && place > 0 && text[place - 1] == ',';
      const std::size_t comma = text.find(',', place + 1);
      const std::size_t next = (comma == std::string::npos ? text.size() : comma) - place;
      if (!may_break || column + next <= kColumns) continue;
      result.back() = '\n';
      result += "  ";
      column = 2;
    }
    return result;
  }

  const Reading& reading_;
};

}  // namespace

std::string used_keys(const Value& config, const Reading& reading) {
  const KeyWriter writer(reading);
  std::string text;
  for (const bool first : {true, false}) {
    for (const Member& member : config.members) {
      if ((member.key == "model_type") == first) text += writer.line(member);
    }
  }
  return text;
}

}  // namespace memest::hf
