#include "memest/reader/schema.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "reader/catalog/catalog_files.hpp"
#include "reader/keys/check.hpp"
#include "reader/keys/keys.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

using Json = nlohmann::ordered_json;

/// A default or a word as an editor's YAML parser would see it.
Json json_of_scalar(std::string_view text) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto integer = integer_of(text)) return *integer;
  if (const auto number = number_of(text)) return *number;
  return std::string(text);
}

std::string pattern_of(Dimension dimension) {
  std::string units;
  for (const Unit& unit : units_in(dimension)) {
    units += (units.empty() ? "" : "|") + std::string(unit.name);
  }
  return "^(0|[1-9][0-9]*)(\\.[0-9]+)? ?(" + units + ")$";
}

class SchemaWriter {
 public:
  Json write(std::span<const Key> keys) {
    Json schema = {
        {"$schema", "https://json-schema.org/draft/2020-12/schema"},
        {"title", "memest spec"},
        {"description", "What `memest` estimates: a model, its training, and the GPUs."}};
    schema.update(table_of({.form = Form::table, .keys = keys}));
    schema["$defs"] = definitions_;
    return schema;
  }

 private:
  Json table_of(const KeyShape& shape) {
    Json properties = Json::object();
    Json required = Json::array();
    for (const Key& key : shape.keys) {
      properties[std::string(key.name)] = property_of(key);
      if (key.required) required.push_back(std::string(key.name));
    }
    Json table = {{"type", "object"}, {"properties", properties}};
    if (!required.empty()) table["required"] = required;
    if (shape.one_key) table["minProperties"] = table["maxProperties"] = 1;
    table["additionalProperties"] = false;
    return table;
  }

  Json property_of(const Key& key) {
    Json property = {{"description", description_of(key)}};
    if (!key.fallback.empty()) property["default"] = json_of_scalar(key.fallback);
    property.update(any_of(key.shapes, key.name));
    return property;
  }

  static std::string description_of(const Key& key) {
    std::string text(key.doc);
    if (!key.later.empty()) text += " Not available yet.";
    std::vector<std::string> later;
    for (const KeyShape& shape : key.shapes) {
      for (const Word& word : shape.words) {
        if (!word.later.empty()) later.emplace_back(word.text);
      }
    }
    if (!later.empty()) text += " Not available yet: " + joined(later) + ".";
    return text;
  }

  Json any_of(const Shapes& shapes, std::string_view name) {
    Json alternatives = Json::array();
    for (const KeyShape& shape : shapes) {
      if (shape.form == Form::none) continue;
      alternatives.push_back(shape_of(shape, name));
      if (shape.bare) alternatives.push_back({{"enum", bare_words(shape)}});
    }
    if (alternatives.size() == 1) return alternatives.front();
    return {{"anyOf", alternatives}};
  }

  Json shape_of(const KeyShape& shape, std::string_view name) {
    switch (shape.form) {
      case Form::none:
        break;
      case Form::flag:
        return {{"type", "boolean"}};
      case Form::count:
        return {{"type", "integer"}, {"minimum", shape.least}, {"maximum", shape.most}};
      case Form::number:
        return {{"type", "number"}, {"minimum", shape.low}, {"maximum", shape.high}};
      case Form::quantity:
        return {{"type", "string"}, {"pattern", pattern_of(shape.dimension)}};
      case Form::choice:
        return {{"enum", words_of_choice(shape.words)}};
      case Form::catalog:
        return {{"enum", catalog_names(shape.folder)}};
      case Form::gpu:
        return gpu_names();
      case Form::target:
      case Form::text:
        return {{"type", "string"}, {"minLength", 1}};
      case Form::table:
        return table_of(shape);
      case Form::document:
        return {{"type", "object"}};
      case Form::list:
        return {{"type", "array"}, {"items", {{"$ref", entry_of(*shape.item, name)}}}};
    }
    unreachable("a shape that is none");
  }

  /// Slugs and aliases as an editor offers them. The reader takes capitals for small letters, and
  /// what has a slash or an extension for a file.
  static Json gpu_names() {
    Json alternatives = Json::array({Json{{"enum", all_gpu_names()}}});
    for (const char* pattern : {"[A-Z]", "/|\\.(yaml|yml|json)$"}) {
      alternatives.push_back({{"type", "string"}, {"pattern", pattern}});
    }
    return {{"anyOf", alternatives}};
  }

  /// Keys that may stand alone.
  static Json bare_words(const KeyShape& shape) {
    Json words = Json::array();
    for (const Key& key : shape.keys) {
      if (takes_empty_table(key.shapes)) words.push_back(std::string(key.name));
    }
    return words;
  }

  static Json words_of_choice(std::span<const Word> words) {
    Json texts = Json::array();
    for (const Word& word : words) {
      texts.push_back(std::string(word.text));
      const Json value = json_of_scalar(word.text);  // `torch: 2.11` is a number to an editor
      if (!value.is_string()) texts.push_back(value);
    }
    return texts;
  }

  /// The definition of a list's entries; by reference, because blocks of layers hold blocks.
  std::string entry_of(const Shapes& item, std::string_view name) {
    const auto [known, is_new] = names_.try_emplace(&item, std::string(name) + "-entry");
    const std::string definition = known->second;
    if (is_new) definitions_[definition] = any_of(item, name);
    return "#/$defs/" + definition;
  }

  std::map<const Shapes*, std::string> names_;
  Json definitions_ = Json::object();
};

}  // namespace

std::string json_schema() { return SchemaWriter().write(spec_keys()).dump(2) + "\n"; }

}  // namespace memest
