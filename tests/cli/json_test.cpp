// Every JSON answer has the form that docs/answer.schema.json documents.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "shell.hpp"

namespace memest {
namespace {

using nlohmann::json;

const json& schema() {
  static const json text = json::parse(file_text(MEMEST_SOURCE_DIR "/docs/answer.schema.json"));
  return text;
}

bool is_of_type(const json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return type == value.type_name();
}

bool has_type(const json& value, const json& rule) {
  if (!rule.contains("type")) return true;
  const json& types = rule["type"];
  if (types.is_string()) return is_of_type(value, types);
  return std::any_of(types.begin(), types.end(),
                     [&](const json& type) { return is_of_type(value, type); });
}

/// The part of JSON Schema that the document uses: type, enum, required, properties, items, $ref.
void check_form(const json& value, const json& rule, const std::string& path) {
  INFO(path);
  if (rule.contains("$ref")) {
    const std::string reference = rule["$ref"];
    return check_form(value, schema().at(json::json_pointer(reference.substr(1))), path);
  }
  CHECK(has_type(value, rule));
  if (rule.contains("enum")) {
    const json& allowed = rule["enum"];
    CHECK(std::find(allowed.begin(), allowed.end(), value) != allowed.end());
  }
  if (value.is_object()) {
    for (const json& key : rule.value("required", json::array())) {
      INFO(key);
      CHECK(value.contains(key.get<std::string>()));
    }
    for (const auto& [key, member] : value.items()) {
      if (rule.contains("properties") && rule["properties"].contains(key)) {
        check_form(member, rule["properties"][key], path + "/" + key);
      }
    }
  }
  if (value.is_array() && rule.contains("items")) {
    for (const json& item : value) check_form(item, rule["items"], path + "/items");
  }
}

/// What is null has a sentence beside it, everywhere.
void check_nulls(const json& value, const std::string& path) {
  INFO(path);
  if (value.is_array()) {
    for (const json& item : value) check_nulls(item, path + "/items");
  }
  if (!value.is_object()) return;
  for (const auto& [key, member] : value.items()) {
    INFO(key);
    if (member.is_null()) CHECK(value.value(key + "_unavailable", "").size() > 10);
    check_nulls(member, path + "/" + key);
  }
}

TEST_CASE("every JSON answer has the documented form, and a sentence for every null") {
  const std::string command = GENERATE(
      "estimate llama-3-8b --gpu h100 --gpus 8", "estimate mixtral-8x7b", "estimate resnet-50",
      "estimate llama-3.1-405b --set training.global_batch=100000000", "plan llama-3-8b --gpus 8",
      "plan t5-small", "plan gpt2 --gpu t4 --gpus 1 --largest micro-batch", "explain llama-3-8b",
      "check gpt2 llama-3-8b", "timeline gpt2 --against tests/truth/traces/v023.trace.gz",
      "timeline llama-3-8b --gpu t4", "timeline gpt2 --pack /dev/null",
      "replay tests/truth/traces/v112.trace.gz tests/truth/synthetic/s06.trace.gz",
      "validate tests/truth/transformers.records.jsonl.gz", "selftest --device host", "profile l4",
      "profile l4 --against tests/calibrate/timing/neusight_fp32_ops.csv.gz",
      "roofline gpt2 --gpu a100", "fit llama-3.2-1b --memory 24GiB", "schedule gpt2 --memory 3GiB",
      "roofline gpt2 --gpu h200-sxm-141gb", "gpus", "models", "recipes", "optimizers",
      "import tests/import/files/torchtitan/llama3_8b.toml");
  const Ran ran = run_shell("memest " + command + " --format json");
  INFO(command << '\n' << ran.err);
  const json answer = json::parse(ran.out);
  CHECK(answer["format_version"] == 1);
  const bool largest = command.find(" --largest ") != std::string::npos;
  const std::string name = largest ? "plan --largest" : command.substr(0, command.find(' '));
  check_form(answer, schema().at("$defs").at(name), name);
  check_nulls(answer, name);
}

TEST_CASE("models marks as known exactly the presets of which check knows what they need") {
  const json listed = json::parse(run_shell("memest models --format json").out);
  std::string names;
  for (const json& model : listed["models"]) names += " " + model["model"].get<std::string>();
  const json checked = json::parse(run_shell("memest check --format json" + names).out);
  REQUIRE(checked["files"].size() == listed["models"].size());
  std::size_t unknown = 0;
  for (std::size_t i = 0; i < listed["models"].size(); ++i) {
    const json& model = listed["models"][i];
    INFO(model["model"]);
    const bool known = model["answers"].size() == 4;
    CHECK((checked["files"][i]["status"] != "not-known") == known);
    CHECK(model.contains("not_known") == !known);
    unknown += known ? 0 : 1;
  }
  CHECK(unknown > 0);
}

TEST_CASE("JSON is UTF-8 and the same in every locale") {
  CHECK(run_shell("LC_ALL=C memest explain gpt2 --format json").out ==
        run_shell("memest explain gpt2 --format json").out);
}

TEST_CASE("a file whose name is no UTF-8 is answered for in JSON that is") {
  const std::string file = "\"$d/$(printf 'a\\376.yaml')\"";
  const std::string command = GENERATE("estimate", "explain", "check", "timeline", "roofline");
  const Ran ran = run_shell("d=$(mktemp -d) && cp configs/models/gpt2.yaml " + file +
                            " && memest " + command + " " + file + " --format json; rm -r \"$d\"");
  INFO(command << '\n' << ran.err);
  CHECK(json::accept(ran.out));
}

}  // namespace
}  // namespace memest
