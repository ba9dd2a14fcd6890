// A spec that came of other programs' files, as YAML: beside each key its origin.
#include <algorithm>
#include <string>

#include "reader/foreign/foreign_import.hpp"
#include "reader/keys/keys.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"
#include "reader/text/text.hpp"

namespace memest {
namespace {

constexpr std::size_t kOriginColumn = 38;

/// A text that YAML would read as something else stands in quotes.
std::string scalar_text(const Value& value) {
  if (value.kind == ValueKind::null) return "null";
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./+ ";
  const std::string& text = value.text;
  const bool plain = !text.empty() && text.find_first_not_of(kPlain) == std::string::npos &&
                     text.front() != ' ' && text.back() != ' ' && text.front() != '-' &&
                     !(text.front() == '.' && value.quoted);
  const bool ambiguous =
      value.quoted && (number_of(text) || is_same_word(text, "true") ||
                       is_same_word(text, "false") || is_same_word(text, "null") || text == "~");
  const bool negative = !value.quoted && number_of(text).has_value();
  if ((plain && !ambiguous) || negative) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) quoted += c;
  }
  return quoted + "\"";
}

std::string key_text(const std::string& key) {
  Value value;
  value.kind = ValueKind::scalar;
  value.text = key;
  value.quoted = true;
  return scalar_text(value);
}

std::string flow_text(const Value& value) {
  if (value.kind == ValueKind::sequence) {
    std::string text;
    for (const Value& item : value.items) text += (text.empty() ? "" : ", ") + flow_text(item);
    return "[" + text + "]";
  }
  if (value.kind == ValueKind::mapping) {
    std::string text;
    for (const Member& member : value.members) {
      text += (text.empty() ? "" : ", ") + key_text(member.key) + ": " + flow_text(member.value);
    }
    return "{" + text + "}";
  }
  return scalar_text(value);
}

class SpecWriter {
 public:
  explicit SpecWriter(const ForeignSpec& spec) : spec_(spec) {
    for (const KeyOrigin& origin : spec.origins) {
      const auto* source = origin.span.source.get();
      several_ = several_ || source != spec.origins.front().span.source.get();
    }
  }

  std::string write() {
    for (const Key& section : spec_keys()) {
      const Value* value = spec_.tree.find(section.name);
      if (value != nullptr) write_member(std::string(section.name), *value, {}, 0);
    }
    for (const Member& member : spec_.tree.members) {
      const bool known = std::ranges::any_of(
          spec_keys(), [&member](const Key& key) { return key.name == member.key; });
      if (!known) write_member(member.key, member.value, {}, 0);
    }
    return std::move(text_);
  }

 private:
  void write_member(const std::string& key, const Value& value, const std::string& around,
                    std::size_t depth) {
    const std::string path = around.empty() ? key : around + "." + key;
    std::string line = std::string(2 * depth, ' ') + key_text(key) + ":";
    const bool is_block = value.kind == ValueKind::mapping && !value.members.empty();
    if (!is_block) line += " " + flow_text(value);
    const std::string origin = origin_of(path);
    if (!origin.empty()) {
      line.resize(std::max(line.size() + 1, kOriginColumn), ' ');
      line += "# " + origin;
    }
    text_ += line + "\n";
    if (!is_block) return;
    for (const Member& member : value.members) {
      write_member(member.key, member.value, path, depth + 1);
    }
  }

  [[nodiscard]] std::string origin_of(const std::string& path) const {
    const auto last = std::find_if(spec_.origins.rbegin(), spec_.origins.rend(),
                                   [&path](const KeyOrigin& origin) { return origin.own == path; });
    if (last == spec_.origins.rend()) return {};
    const std::string file =
        several_ && last->span.source ? harmless_text(last->span.source->name) : std::string();
    if (last->span.line == 0) {
      return (file.empty() ? "" : file + ": ") + "default of " + harmless_text(last->from);
    }
    const std::string line = std::to_string(last->span.line);
    return (file.empty() ? "line " + line : file + ":" + line) + ": " + harmless_text(last->from);
  }

  const ForeignSpec& spec_;
  std::string text_;
  bool several_ = false;
};

}  // namespace

std::string write_foreign_spec(const ForeignSpec& spec) { return SpecWriter(spec).write(); }

}  // namespace memest
