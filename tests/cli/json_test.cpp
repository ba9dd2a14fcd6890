// Every JSON answer has the form that docs/answer.schema.json documents.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>
#include <vector>

#include "shell.hpp"

namespace memest {
namespace {

using nlohmann::json;

/// Where `answer` is not what `memest schema NAME` says; empty where it is.
std::string misfits(const json& answer, const std::string& name) {
  const Ran ran = run_shell("memest schema " + name);
  INFO("memest schema " << name << "\n" << ran.err);
  REQUIRE(ran.code == 0);
  const json rules = json::parse(ran.out);
  valijson::Schema schema;
  valijson::SchemaParser().populateSchema(valijson::adapters::NlohmannJsonAdapter(rules), schema);
  valijson::ValidationResults results;
  const valijson::adapters::NlohmannJsonAdapter target(answer);
  if (valijson::Validator().validate(schema, target, &results)) return "";
  std::string errors;
  for (valijson::ValidationResults::Error error; results.popError(error);) {
    for (const std::string& step : error.context) errors += step;
    errors += ": " + error.description + '\n';
  }
  return errors;
}

void check_form(const json& answer, const std::string& name) {
  INFO(name);
  CHECK(misfits(answer, name) == "");
}

/// Whether every object of `rule` names all its keys, or says what those of a map are.
bool is_strict(const json& rule) {
  if (rule.is_array()) return std::all_of(rule.begin(), rule.end(), is_strict);
  if (!rule.is_object()) return true;
  const bool is_object = rule.contains("properties") && rule["properties"].is_object();
  if (is_object && rule.value("additionalProperties", json()) != false) return false;
  return std::all_of(rule.begin(), rule.end(), is_strict);
}

/// The commands that take --format json.
std::vector<std::string> commands_with_json() {
  const json help = json::parse(run_shell("memest --help --format json").out);
  std::vector<std::string> names;
  for (const json& command : help["commands"]) {
    for (const json& flag : command["flags"]) {
      if (flag["name"] != "--format") continue;
      const json& words = flag["words"];
      if (std::find(words.begin(), words.end(), "json") != words.end()) {
        names.push_back(command["name"]);
      }
    }
  }
  return names;
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
      "estimate llama-3.1-405b --set training.global_batch=100000000", "estimate vit-base",
      "estimate llama-3-8b --gpu h100 --gpus 8 --set parallelism.pipeline=4 "
      "--set parallelism.data=2 --set training.implementation=megatron "
      "--set training.precision=megatron",
      "estimate llama-3-8b --gpu h100 --gpus 8 --set parallelism.zero=3 "
      "--set 'parallelism.offload={optimizer: cpu}'",
      "estimate gpt2 --set 'training.data={workers: 1, sample_bytes: 600 KiB, sample_seconds: 4 "
      "ms}'",
      "plan llama-3-8b --gpus 8", "plan t5-small",
      "plan gpt2 --gpu h100 --gpus 8 --tokens 10B --within 1d --front --explain-choice "
      "--set training.implementation=nanogpt",
      "plan gpt2 --gpu t4 --gpus 1 --largest micro-batch", "explain llama-3-8b", "explain t5-small",
      "explain llama-3-8b --gpu h100 --gpus 8 --set parallelism.zero=3 "
      "--set 'parallelism.offload={optimizer: cpu}'",
      "check gpt2 llama-3-8b vit-base",
      "check gpt2 --set budget.step_time='1 s' --set budget.memory='1 GiB'",
      "timeline gpt2 --against tests/truth/traces/v023.trace.gz", "timeline llama-3-8b --gpu t4",
      "timeline gpt2 --pack /dev/null", "timeline resnet-18 --reuse",
      "replay tests/truth/traces/v112.trace.gz tests/truth/synthetic/s06.trace.gz",
      "replay tests/record/worked.memrec.gz --gpu a100-sxm-80gb,t4",
      "replay tests/record/family.memrec --at batch=9 --at seq=1001",
      "replay tests/record/family.memrec --largest batch --at seq=1024",
      "replay tests/record/trained.memrec.gz tests/record/ran_out.memrec.gz --memory 600MiB "
      "--conf expandable_segments:True",
      "estimate tests/record/family.memrec --at batch=9 --at seq=1001",
      "plan tests/record/family.memrec --at seq=1024 --gpu t4,l4",
      "plan tests/record/worked.memrec.gz", "timeline tests/record/worked.memrec.gz",
      "timeline tests/record/family.memrec --at batch=9 --at seq=1001",
      "roofline tests/record/worked.memrec.gz --gpu l4",
      "check tests/record/worked.memrec.gz --gpu l4 --set budget.memory=1MiB",
      "diff tests/record/worked.memrec.gz tests/record/trained.memrec.gz",
      "validate tests/truth/transformers.records.jsonl.gz", "selftest --device host", "profile l4",
      "profile l4 --against tests/calibrate/timing/neusight_fp32_ops.csv.gz",
      "roofline gpt2 --gpu a100", "fit llama-3.2-1b --memory 24GiB", "schedule gpt2 --memory 3GiB",
      "roofline gpt2 --gpu h200-sxm-141gb", "diff gpt2 t5-small",
      "diff gpt2 gpt2-medium --gpu rtx-4090",
      "diff tests/truth/runs/run.yaml tests/truth/runs/kept.pickle.gz",
      "diff gpt2 tests/golden/gpu.log --gpu rtx-4090", "gpus", "gpus t4", "models", "recipes",
      "optimizers", "import tests/import/files/torchtitan/llama3_8b.toml");
  const Ran ran = run_shell("memest " + command + " --format json");
  INFO(command << '\n' << ran.err);
  const json answer = json::parse(ran.out);
  check_form(answer, command.substr(0, command.find(' ')));
  check_nulls(answer, command);
}

TEST_CASE("generations and lists of layers have the documented form") {
  const std::string spec =
      GENERATE("{model: gpt2, inference: {prompt: 512, batch: 4}}",
               "{model: gpt2, inference: {prompt: 512, batch: 4, generate: 16, beams: 4}}",
               "{model: {layers: [{linear: {in: 64, out: 64}}, relu], loss: mean-square}, "
               "training: {seq_len: 128, implementation: plain}}",
               "{model: {layers: 2, hidden_size: 256, heads: 4, vocab_size: 1000}, "
               "training: {seq_len: 128}}");
  for (const std::string command : {"estimate", "explain", "check", "timeline"}) {
    const Ran ran = run_shell("echo '" + spec + "' | memest " + command + " - --format json");
    INFO(command << " " << spec << '\n' << ran.err);
    const json answer = json::parse(ran.out);
    check_form(answer, answer.contains("diagnostics") ? "refusal" : command);
    check_nulls(answer, command);
  }
}

TEST_CASE("a command that prints JSON has a schema, and its example prints what that says") {
  for (const std::string& name : commands_with_json()) {
    INFO(name);
    REQUIRE(run_shell("memest schema " + name).code == 0);
    if (name == "plan" || name == "selftest" || name == "fit") continue;  // long: they stand above
    if (name == "record") continue;  // needs PyTorch: record_test.cpp runs other programs
    const json help = json::parse(run_shell("memest help " + name + " --format json").out);
    const std::string example = help["commands"][0]["example"];
    const Ran ran = run_shell(example.substr(0, example.find(" --format")) + " --format json");
    INFO(ran.err);
    check_form(json::parse(ran.out), name);
  }
}

TEST_CASE("docs/answer.schema.json is what memest schema prints, part by part") {
  const json document = json::parse(file_text(MEMEST_SOURCE_DIR "/docs/answer.schema.json"));
  for (const auto& [name, rule] : document["$defs"].items()) {
    INFO(name);
    const Ran ran = run_shell("memest schema " + name);
    CHECK((ran.code == 0) == (name[0] >= 'a' && name[0] <= 'z'));
    if (ran.code != 0) continue;
    json printed = json::parse(ran.out);
    const json parts = printed.value("$defs", json::object());
    for (const auto& [part, text] : parts.items()) {
      CHECK(text == document["$defs"][part]);
    }
    for (const char* key : {"$defs", "$schema", "title"}) printed.erase(key);
    CHECK(printed == rule);
  }
}

TEST_CASE("a schema is strict: a key too many or too few is refused, and a wrong type") {
  const json document = json::parse(file_text(MEMEST_SOURCE_DIR "/docs/answer.schema.json"));
  for (const auto& [name, rule] : document["$defs"].items()) {
    INFO(name);
    CHECK(is_strict(rule));
  }
  const json answer = json::parse(run_shell("memest models --format json").out);
  CHECK(misfits(answer, "models").empty());
  json more = answer;
  more["models"][3]["surprise"] = 1;
  CHECK_FALSE(misfits(more, "models").empty());
  json fewer = answer;
  fewer["models"][3].erase("family");
  CHECK_FALSE(misfits(fewer, "models").empty());
  json other = answer;
  other["models"][3]["family"] = 1;
  CHECK_FALSE(misfits(other, "models").empty());
}

TEST_CASE("help and version have the documented form") {
  check_form(json::parse(run_shell("memest --help --format json").out), "help");
  check_form(json::parse(run_shell("memest plan --help --format json").out), "help");
  const Ran version = run_shell("memest --version --format json");
  check_form(json::parse(version.out), "version");
  const std::string number = json::parse(version.out)["memest"];
  CHECK(run_shell("memest --version | head -n 1").out == "memest " + number + "\n");
}

TEST_CASE("what is refused says so as JSON too, where JSON was asked for") {
  const std::string command =
      GENERATE("estimate no/such/file.yaml", "estimate gpt2 --set training.oops=1", "estimat gpt2",
               "plan gpt2 --fromat csv", "estimate gpt2 --gpus 0", "fit vit-base",
               "gpus no-such-gpu", "estimate", "check gpt2 --color pink");
  const Ran text = run_shell("memest " + command);
  const Ran ran = run_shell("memest " + command + " --format json");
  INFO(command << '\n' << ran.out);
  CHECK(ran.code >= 2);
  CHECK(ran.code == text.code);
  CHECK(ran.err == text.err);
  const json answer = json::parse(ran.out);
  check_form(answer, "refusal");
  CHECK(answer["exit_code"] == ran.code);
  CHECK_FALSE(answer["diagnostics"].empty());
  CHECK(run_shell("memest " + command + " --format json 2>/dev/null").out == ran.out);
}

TEST_CASE("a refusal tells where each mistake is") {
  const Ran ran = run_shell("memest estimate gpt2 --set training.micro_batsh=2 --format json");
  CHECK(ran.code == 2);
  CHECK(ran.out == R"({
  "format_version": 1,
  "exit_code": 2,
  "diagnostics": [
    {
      "severity": "error",
      "message": "unknown key 'micro_batsh'",
      "hint": "did you mean 'micro_batch'?",
      "file": "--set",
      "line": 1,
      "column": 10,
      "length": 11,
      "unavailable": false,
      "text": "--set:1:10: error: unknown key 'micro_batsh'\n  1 | training.micro_batsh=2\n    |          ^~~~~~~~~~~\n    = hint: did you mean 'micro_batch'?\n"
    }
  ]
}
)");
  CHECK(run_shell("memest estimate gpt2 --set training.oops=1 --format json --quiet").out.empty());
}

TEST_CASE("models marks as known exactly the presets of which check knows what they need") {
  const json listed = json::parse(run_shell("memest models --format json").out);
  std::string names;
  for (const json& model : listed["models"]) names += " " + model["model"].get<std::string>();
  const json checked = json::parse(run_shell("memest check --format json" + names).out);
  REQUIRE(checked["files"].size() == listed["models"].size());
  std::map<std::string, std::string> statuses;
  for (const json& file : checked["files"]) statuses[file["file"]] = file["status"];
  std::size_t unknown = 0;
  for (const json& model : listed["models"]) {
    INFO(model["model"]);
    const bool known = model["answers"].size() == 4;
    CHECK((statuses[model["model"]] != "not-known") == known);
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
