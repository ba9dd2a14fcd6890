#include "memest/reader/schema.hpp"

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "memest/reader/read_job.hpp"
#include "reader/keys/keys.hpp"
#include "reader/value.hpp"

namespace memest {
namespace {

std::shared_ptr<const SourceText> source_of(std::string name, std::string text) {
  return std::make_shared<const SourceText>(SourceText{std::move(name), std::move(text)});
}

/// Every key of the tables, and that the schema has each where the reader has it.
void check_keys(std::span<const Key> keys, const Value& table) {
  const Value* properties = table.find("properties");
  REQUIRE(properties != nullptr);
  CHECK(properties->members.size() == keys.size());
  CHECK(table.find("additionalProperties")->text == "false");
  for (const Key& key : keys) {
    INFO(key.name);
    const Value* property = properties->find(key.name);
    REQUIRE(property != nullptr);
    CHECK_FALSE(property->find("description")->text.empty());
    if (key.shapes[0].form == Form::table && key.shapes[1].form == Form::none) {
      check_keys(key.shapes[0].keys, *property);
    }
  }
}

/// Every `$ref` names a definition.
void check_references(const Value& value, const Value& definitions) {
  if (const Value* reference = value.find("$ref")) {
    const std::string prefix = "#/$defs/";
    REQUIRE(reference->text.starts_with(prefix));
    CHECK(definitions.find(reference->text.substr(prefix.size())) != nullptr);
  }
  for (const Value& item : value.items) check_references(item, definitions);
  for (const Member& member : value.members) check_references(member.value, definitions);
}

}  // namespace

TEST_CASE("the schema has every key that the reader knows, and no other") {
  const Checked<Value> schema = parse_json(source_of("schema.json", json_schema()));
  REQUIRE(schema.ok());
  CHECK(schema.value().find("$schema")->text == "https://json-schema.org/draft/2020-12/schema");
  check_keys(spec_keys(), schema.value());
  check_references(schema.value(), *schema.value().find("$defs"));
  const Value& model = *schema.value().find("properties")->find("model");
  REQUIRE(model.find("anyOf")->items.size() == 4);
  check_keys(decoder_keys(), model.find("anyOf")->items[1]);
  check_keys(layer_list_keys(), model.find("anyOf")->items[3]);
}

TEST_CASE("the starter spec is a spec, in lines that fit the screen") {
  const std::string starter = starter_spec();
  const Checked<Job> job = read_job(source_of("starter.yaml", starter));
  for (const Diagnostic& diagnostic : job.diagnostics()) UNSCOPED_INFO(diagnostic.message);
  REQUIRE(job.ok());
  CHECK(job.value().global_batch() == 512);
  for (std::size_t start = 0; start < starter.size();) {
    const std::size_t end = starter.find('\n', start);
    CHECK(end - start <= 100);
    start = end + 1;
  }
}

}  // namespace memest
