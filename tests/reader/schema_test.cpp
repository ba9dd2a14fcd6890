#include "memest/reader/schema.hpp"

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <set>
#include <string>

#include "memest/reader/catalog.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/spec/framework.hpp"
#include "reader/keys/keys.hpp"
#include "reader/text/value.hpp"

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

TEST_CASE("the schema has every GPU by name") {
  const Checked<Value> schema = parse_json(source_of("schema.json", json_schema()));
  REQUIRE(schema.ok());
  const Value& hardware = *schema.value().find("properties")->find("hardware");
  const Value& gpu = *hardware.find("properties")->find("gpu");
  std::set<std::string> names;
  for (const Value& name : gpu.find("anyOf")->items.front().find("enum")->items) {
    names.insert(name.text);
  }
  for (const GpuSpec& known : all_gpus()) {
    INFO(known.slug);
    CHECK(names.contains(known.slug));
    for (const std::string& alias : known.aliases) CHECK(names.contains(alias));
  }
}

namespace {

/// What a part of the implementation is called when the job is read; empty where it has no name.
std::string part_of(const Implementation& implementation, std::string_view key) {
  if (key == "attention") return std::string(name_of(implementation.attention));
  if (key == "loss") return std::string(name_of(implementation.loss));
  if (key == "layers") return std::string(name_of(implementation.layers));
  if (key == "loop") return std::string(name_of(implementation.loop));
  if (key == "compile") return std::string(name_of(implementation.compile));
  if (key == "transformer_engine") return std::string(name_of(implementation.transformer_engine));
  return {};
}

/// Whether some framework takes `key: word` for what it says; a chunked loss is one release's.
bool is_understood(std::string_view key, std::string_view word) {
  for (const Framework framework : frameworks()) {
    const std::string text =
        "model: {layers: 2, hidden_size: 64, heads: 4, vocab_size: 128}\n"
        "training: {seq_len: 128, implementation: {name: " +
        std::string(name_of(framework)) + ", " + std::string(key) + ": '" + std::string(word) +
        "'" + (word == "chunked" ? ", torchtitan: 2025-03" : "") + "}}\n";
    const Checked<Job> job = read_job(source_of("spec.yaml", text));
    if (job.ok() && part_of(job.value().training->implementation, key) == word) return true;
  }
  return false;
}

TEST_CASE("every key with dots is one that --set knows, and --free knows its own") {
  const std::vector<std::string> keys = dotted_keys();
  CHECK(keys.size() > 100);
  for (const std::string& key : keys) {
    INFO(key);
    // A word that hardly any key takes: what is said is about the value, not about the key.
    const Checked<Job> job = read_job({{"gpt2"}, {{"--set", key + "=x"}}, {}, {}});
    for (const Diagnostic& diagnostic : job.diagnostics()) {
      CHECK(diagnostic.message.find("unknown key") == std::string::npos);
    }
  }
  for (const std::string& key : searched_keys()) {
    INFO(key);
    const ReadRequest request{
        .files = {"gpt2"}, .overrides = {}, .gpus = {}, .freed = {{"--free", key}}};
    const Checked<Job> job = read_job(request);
    for (const Diagnostic& diagnostic : job.diagnostics()) {
      CHECK(diagnostic.message.find("no search chooses") == std::string::npos);
    }
  }
}

TEST_CASE("an answer's schema has the parts that it refers to, and no others") {
  CHECK(answer_schema("estimate").has_value());
  CHECK_FALSE(answer_schema("Memory").has_value());
  CHECK_FALSE(answer_schema("").has_value());
  for (const std::string& name : answer_names()) {
    INFO(name);
    const std::string schema = answer_schema(name).value();
    CHECK(schema.ends_with("}\n"));
    CHECK((schema.find("\"$defs\"") != std::string::npos) ==
          (schema.find("\"$ref\"") != std::string::npos));
  }
}

}  // namespace

TEST_CASE("no word for a part of an implementation is read as its default") {
  int words = 0;
  for (const Key& key : implementation_keys()) {
    if (part_of({}, key.name).empty()) continue;
    for (const KeyShape& shape : key.shapes) {
      for (const Word& word : shape.words) {
        if (!word.later.empty() || word.text == "default") continue;
        INFO(std::string(key.name) + ": " + std::string(word.text));
        CHECK(is_understood(key.name, word.text));
        ++words;
      }
    }
  }
  CHECK(words > 20);
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
