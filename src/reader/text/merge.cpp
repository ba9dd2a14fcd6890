#include "reader/text/merge.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "reader/text/scalar.hpp"

namespace memest {
namespace {

/// Gives a tree that was parsed from padded text the text that the user wrote.
void set_source(Value& value, const std::shared_ptr<const SourceText>& source) {
  value.span.source = source;
  for (Value& item : value.items) set_source(item, source);
  for (Member& member : value.members) {
    member.key_span.source = source;
    set_source(member.value, source);
  }
}

/// Parses the value behind the equals sign. Blanks stand for what is before it, so that columns are
/// those of the whole text.
Checked<Value> parse_value(const std::shared_ptr<const SourceText>& source, std::size_t start) {
  std::string padded(start, ' ');
  padded += source->text.substr(start);
  Checked<Value> parsed =
      parse_yaml(std::make_shared<const SourceText>(SourceText{source->name, std::move(padded)}));
  if (!parsed.ok()) {
    Diagnostics errors = parsed.diagnostics();
    for (Diagnostic& error : errors) error.span.source = source;
    return errors;
  }
  Value value = std::move(parsed).value();
  set_source(value, source);
  return value;
}

}  // namespace

void merge(Value& base, Value over) {
  if (base.kind != ValueKind::mapping || over.kind != ValueKind::mapping) {
    base = std::move(over);
    return;
  }
  std::unordered_map<std::string, std::size_t> places;
  for (const Member& member : base.members) places.emplace(member.key, places.size());
  for (Member& member : over.members) {
    const auto [place, is_new] = places.emplace(member.key, base.members.size());
    if (is_new) {
      base.members.push_back(std::move(member));
      continue;
    }
    Member& same = base.members[place->second];
    merge(same.value, std::move(member.value));
    same.key_span = std::move(member.key_span);
  }
}

Checked<Value> parse_override(const SourceText& override_) {
  const std::string& text = override_.text;
  const auto source = std::make_shared<const SourceText>(override_);
  const auto place = [&](std::size_t offset, std::size_t length) {
    return SourceSpan{source, 1, static_cast<std::int32_t>(offset + 1),
                      static_cast<std::int32_t>(length)};
  };
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || text.size() > kMaxTextSize) {
    return error_at(place(0, text.size()), "an override is KEY=VALUE",
                    "for example training.micro_batch=4");
  }
  if (std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(equals), '.') >=
      kMaxDepth) {
    return error_at(place(0, equals),
                    "nested more than " + std::to_string(kMaxDepth) + " levels deep");
  }
  if (text.find_first_not_of(" \t\r\n", equals + 1) == std::string::npos) {
    return error_at(place(equals, 1), "a value is missing behind the equals sign");
  }
  Checked<Value> parsed = parse_value(source, equals + 1);
  if (!parsed.ok()) return parsed;
  Value tree = std::move(parsed).value();
  // From the last key to the first, each wraps what it holds.
  for (std::size_t end = equals;;) {
    const std::size_t dot = end == 0 ? std::string::npos : text.rfind('.', end - 1);
    const std::size_t start = dot == std::string::npos ? 0 : dot + 1;
    if (start == end) return error_at(place(start, 1), "a key is missing here");
    const SourceSpan span = place(start, end - start);
    Value mapping;
    mapping.kind = ValueKind::mapping;
    mapping.span = span;
    mapping.members.push_back({text.substr(start, end - start), span, std::move(tree)});
    tree = std::move(mapping);
    if (start == 0) return tree;
    end = dot;
  }
}

}  // namespace memest
