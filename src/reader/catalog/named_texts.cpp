#include "reader/catalog/named_texts.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "reader/job/read_model.hpp"

namespace memest {
namespace {

Value* member_of(Value* value, std::string_view key) {
  if (value == nullptr) return nullptr;
  const auto found = std::ranges::find(value->members, key, &Member::key);
  return found == value->members.end() ? nullptr : &found->value;
}

}  // namespace

SourcePointer find_text(const ReadRequest& request, const std::string& name) {
  const auto found = std::ranges::find_if(
      request.texts, [&name](const SourcePointer& text) { return text->name == name; });
  return found == request.texts.end() ? nullptr : *found;
}

std::string named_config(const ReadRequest& request, const Value& hf) {
  const SourcePointer& text = hf.span.source;
  if (text == nullptr || std::ranges::find(request.texts, text) == request.texts.end()) {
    return config_path(hf);
  }
  // "REVISION:folder/spec.yaml": the path begins behind the colon, which no revision has in it.
  const std::size_t begin = text->name.find(':') + 1;
  const std::filesystem::path folder =
      std::filesystem::path(text->name.substr(begin)).parent_path();
  return text->name.substr(0, begin) + (folder / hf.text).lexically_normal().string();
}

std::vector<Value*> named_configs(Value& root) {
  std::vector<Value*> found;
  for (Value* holder : {&root, member_of(member_of(&root, "training"), "teacher")}) {
    Value* hf = member_of(member_of(holder, "model"), "hf");
    if (hf != nullptr && hf->kind == ValueKind::scalar) found.push_back(hf);
  }
  return found;
}

void put_named_texts(const ReadRequest& request, Value& root, Diagnostics& diagnostics) {
  if (request.texts.empty()) return;
  for (Value* hf : named_configs(root)) {
    const SourcePointer text = find_text(request, named_config(request, *hf));
    if (text == nullptr) continue;
    Checked<Value> config = parse_json(text);
    append(config.diagnostics(), diagnostics);
    if (config.ok()) *hf = std::move(config).value();
  }
}

}  // namespace memest
