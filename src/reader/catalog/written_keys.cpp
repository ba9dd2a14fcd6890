#include "memest/reader/written_keys.hpp"

#include <algorithm>
#include <utility>

#include "memest/diag/environment.hpp"
#include "reader/catalog/named_texts.hpp"
#include "reader/job/read_model.hpp"
#include "reader/request/read_spec.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

/// As a spec would have it on one line.
std::string text_of(const Value& value) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  switch (value.kind) {
    case ValueKind::null:
      return "null";
    case ValueKind::scalar:
      return value.text.empty() ? "''" : value.text;
    case ValueKind::sequence:
      for (const Value& item : value.items) add(text_of(item));
      return "[" + text + "]";
    case ValueKind::mapping:
      for (const Member& member : value.members) add(member.key + ": " + text_of(member.value));
      return "{" + text + "}";
  }
  unreachable("a kind of value beyond the enum");
}

void append_keys(const Value& value, const std::string& path, std::vector<SpecKey>& keys) {
  if (value.kind != ValueKind::mapping || value.members.empty()) {
    keys.push_back({path, text_of(value), value.span});
    return;
  }
  for (const Member& member : value.members) {
    append_keys(member.value, path.empty() ? member.key : path + "." + member.key, keys);
  }
}

/// Puts the config of a file in the place of its name. One that cannot be read stays a name: the
/// job's reader says why.
void put_config(Value& hf) {
  try {
    const Checked<SourcePointer> source = read_source(config_path(hf));
    if (!source.ok()) return;
    Checked<Value> config = parse_json(source.value());
    if (config.ok()) hf = std::move(config).value();
  } catch (const EnvironmentError&) {
    return;
  }
}

}  // namespace

Checked<std::vector<SpecKey>> written_keys(const ReadRequest& request) {
  Checked<Value> read = read_tree(request);
  if (!read.ok()) return read.diagnostics();
  Value root = std::move(read).value();
  for (Value* hf : named_configs(root)) put_config(*hf);
  std::vector<SpecKey> keys;
  append_keys(root, "", keys);
  return keys;
}

}  // namespace memest
