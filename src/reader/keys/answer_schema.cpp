// The schema of one answer, cut out of the document that describes all of them.
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "memest/reader/schema.hpp"
#include "reader/text/embedded_texts.hpp"

namespace memest {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDefinitions = "$defs";
constexpr std::string_view kPart = "#/$defs/";

/// An answer is a part that is named as its command is: with no capital letter. A capital begins
/// what several answers share.
bool is_answer(const std::string& name) {
  return !name.empty() && name.front() >= 'a' && name.front() <= 'z';
}

/// Adds the parts that `rule` refers to, and those that they do.
void add_parts(const Json& rule, const Json& all, std::map<std::string, Json>& parts) {
  if (rule.is_array()) {
    for (const Json& item : rule) add_parts(item, all, parts);
  }
  if (!rule.is_object()) return;
  for (const auto& [key, value] : rule.items()) {
    if (key != "$ref") {
      add_parts(value, all, parts);
      continue;
    }
    const std::string name = value.get<std::string>().substr(kPart.size());
    if (parts.try_emplace(name, all.at(name)).second) add_parts(all.at(name), all, parts);
  }
}

Json whole_schema() { return Json::parse(answer_schema_text()); }

}  // namespace

std::vector<std::string> answer_names() {
  const Json schema = whole_schema();
  std::vector<std::string> names;
  for (const auto& [name, rule] : schema.at(kDefinitions).items()) {
    if (is_answer(name)) names.push_back(name);
  }
  return names;
}

std::optional<std::string> answer_schema(const std::string& name) {
  const Json all = whole_schema().at(kDefinitions);
  if (!is_answer(name) || !all.contains(name)) return std::nullopt;
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "The JSON answer of memest " + name}};
  schema.update(all.at(name));
  std::map<std::string, Json> parts;
  add_parts(all.at(name), all, parts);
  if (!parts.empty()) schema[kDefinitions] = parts;
  return schema.dump(2) + "\n";
}

}  // namespace memest
