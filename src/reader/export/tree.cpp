#include "reader/export/tree.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace memest {
namespace {

using Json = nlohmann::ordered_json;

Value scalar(std::string_view text, bool quoted) {
  Value value;
  value.kind = ValueKind::scalar;
  value.text = text;
  value.quoted = quoted;
  return value;
}

Json json_tree(const Value& value) {
  switch (value.kind) {
    case ValueKind::null:
      return nullptr;
    case ValueKind::scalar:
      return value.quoted ? Json(value.text) : Json::parse(value.text);
    case ValueKind::sequence: {
      Json list = Json::array();
      for (const Value& item : value.items) list.push_back(json_tree(item));
      return list;
    }
    case ValueKind::mapping: {
      Json map = Json::object();
      for (const Member& member : value.members) map[member.key] = json_tree(member.value);
      return map;
    }
  }
  return nullptr;
}

/// A string of JSON is one of TOML and of YAML too; numbers stay as they are written.
std::string flow_of(const Value& value) {
  if (value.kind == ValueKind::scalar && !value.quoted) return value.text;
  if (value.kind != ValueKind::sequence) return json_tree(value).dump();
  std::string items;
  for (const Value& item : value.items) items += (items.empty() ? "" : ", ") + flow_of(item);
  return "[" + items + "]";
}

bool is_section(const Member& member) { return member.value.kind == ValueKind::mapping; }

void write_toml(const Value& section, const std::string& path, std::string& text) {
  const bool has_keys = !std::ranges::all_of(section.members, is_section);
  if (has_keys && !path.empty()) {
    text += (text.empty() ? "[" : "\n[") + path + "]\n";
  }
  for (const Member& member : section.members) {
    if (!is_section(member)) text += member.key + " = " + flow_of(member.value) + "\n";
  }
  for (const Member& member : section.members) {
    if (!is_section(member)) continue;
    write_toml(member.value, path.empty() ? member.key : path + "." + member.key, text);
  }
}

void write_yaml(const Value& section, std::size_t indent, std::string& text) {
  for (const Member& member : section.members) {
    text += std::string(indent, ' ') + member.key + ":";
    if (is_section(member)) {
      text += "\n";
      write_yaml(member.value, indent + 2, text);
    } else {
      text += " " + flow_of(member.value) + "\n";
    }
  }
}

}  // namespace

Value word_of(std::string_view word) { return scalar(word, true); }

Value number_of_count(std::int64_t number) { return scalar(std::to_string(number), false); }

Value flag_of(bool flag) { return scalar(flag ? "true" : "false", false); }

Value literal_of(std::string_view text) { return scalar(text, false); }

Value words_of_list(const std::vector<std::string>& words) {
  Value list;
  list.kind = ValueKind::sequence;
  for (const std::string& word : words) list.items.push_back(word_of(word));
  return list;
}

void set(Value& tree, std::string_view path, Value value) {
  tree.kind = ValueKind::mapping;
  const std::size_t dot = path.find('.');
  const std::string_view key = path.substr(0, dot);
  auto member = std::ranges::find(tree.members, key, &Member::key);
  if (member == tree.members.end()) {
    tree.members.push_back({std::string(key), {}, {}});
    member = std::prev(tree.members.end());
  }
  if (dot == std::string_view::npos) {
    member->value = std::move(value);
  } else {
    set(member->value, path.substr(dot + 1), std::move(value));
  }
}

std::string written_as_toml(const Value& tree) {
  std::string text;
  write_toml(tree, "", text);
  return text;
}

std::string written_as_json(const Value& tree) { return json_tree(tree).dump(2) + "\n"; }

std::string written_as_yaml(const Value& tree) {
  std::string text;
  write_yaml(tree, 0, text);
  return text;
}

}  // namespace memest
